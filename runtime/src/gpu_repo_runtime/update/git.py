"""Git, called in one place: without the owner's hooks, with a time limit, and with messages in English."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 300.0  # seconds for one command
SETTINGS = ("core.hooksPath=/dev/null", "core.quotePath=false", "gc.auto=0", "advice.detachedHead=false")
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "Template", "EMAIL": "template@example.invalid"}.items()
}
FROM_A_HOOK = ("GIT_DIR", "GIT_INDEX", "GIT_WORK", "GIT_OBJECT", "GIT_PREFIX", "GIT_COMMON")


class UpdateError(Exception):
    """The update cannot be made. The message says what failed, where, and what to do."""


def clean(text: str) -> str:
    """Return a text on one line, without logins in addresses and without control characters."""
    plain = re.sub(r"//[^/@\s]+@", "//", " ".join(text.split()))
    return "".join(letter for letter in plain if letter.isprintable())


def error_line(output: bytes) -> str:
    """Return the line of git's output that gives the reason of a failure."""
    lines = output.decode(errors="replace").strip().splitlines()
    reason = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "failed")
    return clean(reason.removeprefix("fatal: "))


@dataclass(frozen=True)
class Git:
    """Git in one folder.

    `env` and `settings` (name=value) are for every command: the fleet passes a token by the environment, never on a
    command line. `interactive` lets git and ssh ask for a password on the terminal.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: tuple[str, ...] = ()
    interactive: bool = False

    def run(
        self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None, limit: float = LIMIT
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one command; the caller judges its exit code. Raises UpdateError when it takes longer than `limit` s."""
        command = ["git", *(word for one in (*SETTINGS, *self.settings) for word in ("-c", one)), *words]
        own = {name: value for name, value in os.environ.items() if not name.startswith(FROM_A_HOOK)}
        own |= {**AUTHOR, "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C.UTF-8", **self.env, **(env or {})}
        try:
            process = subprocess.Popen(
                command, cwd=self.folder, env=own, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=not self.interactive,
            )  # fmt: skip
        except FileNotFoundError:
            raise UpdateError("git is not installed, or not on the PATH: install it first") from None
        try:
            out, err = process.communicate(stdin, limit)
        except BaseException as error:
            with suppress(ProcessLookupError):  # ssh, or git's helper for https, holds the pipes open
                process.kill() if self.interactive else os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise UpdateError(f"git {words[0]} took longer than {limit:.0f} s") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def bytes(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Run one command and return what it prints. Raises UpdateError with git's reason when it fails."""
        done = self.run(*words, stdin=stdin, env=env)
        if done.returncode:
            raise UpdateError(f"git {words[0]}: {error_line(done.stderr or done.stdout)}")
        return done.stdout

    def text(self, *words: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Return the same as text, without the last line break; bytes that are not UTF-8 become surrogates."""
        given = None if stdin is None else stdin.encode("utf-8", "surrogateescape")
        return self.bytes(*words, stdin=given, env=env).decode("utf-8", "surrogateescape").rstrip("\n")

    def paths(self, *words: str) -> list[str]:
        """Run a command that prints names which end with NUL (-z) and return them."""
        return [name for name in self.text(*words).split("\0") if name]
