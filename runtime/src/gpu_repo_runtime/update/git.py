"""Git, called in one place: without the owner's hooks, and with messages in English."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BYTES = ("utf-8", "surrogateescape")  # how bytes that are not UTF-8 pass through a text
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.quotePath=false", "gc.auto=0", "advice.detachedHead=false"),
    *("user.name=Template", "user.email=template@example.invalid", "merge.directoryRenames=true"),
    *("url.https://github.com/.insteadOf=gh:", "url.https://gitlab.com/.insteadOf=gl:"),  # as Copier writes addresses
)
NONE: Mapping[str, str] = {}
FROM_A_HOOK = ("GIT_DIR", "GIT_INDEX", "GIT_WORK", "GIT_OBJECT", "GIT_PREFIX", "GIT_COMMON")


class UpdateError(Exception):
    """The update cannot be made. The message says what failed, where, and what to do."""


def clean(text: str) -> str:
    """Return a text on one line, without logins in addresses and without control characters."""
    plain = re.sub(r"//[^/@\s]+@", "//", " ".join(text.split()))
    return "".join(letter for letter in plain if letter.isprintable()).removeprefix("fatal: ")


@dataclass(frozen=True)
class Git:
    """Git in one folder.

    `env` and `settings` (name=value) are for every command: the fleet passes a token by the environment, never on a
    command line.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: tuple[str, ...] = ()

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] = NONE) -> subprocess.CompletedProcess[bytes]:
        """Run one command; the caller judges its exit code."""
        command = ["git", *(word for one in (*SETTINGS, *self.settings) for word in ("-c", one)), *words]
        own = {name: value for name, value in os.environ.items() if not name.startswith(FROM_A_HOOK)}
        own |= {"GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C.UTF-8", **self.env, **env}
        return subprocess.run(command, cwd=self.folder, env=own, input=stdin.encode(*BYTES), capture_output=True)

    def text(self, *words: str, stdin: str = "", env: Mapping[str, str] = NONE) -> str:
        """Run one command and return what it prints, without the last line break. Raises UpdateError when it fails.

        Bytes that are not UTF-8 become surrogates, here and in `stdin`.
        """
        done = self.run(*words, stdin=stdin, env=env)
        if done.returncode:
            raise UpdateError(f"git {words[0]}: {clean((done.stderr or done.stdout).decode(errors='replace'))[:300]}")
        return done.stdout.decode(*BYTES).rstrip("\n")

    def paths(self, *words: str) -> list[str]:
        """Run a command that prints names which end with NUL (-z) and return them."""
        return [name for name in self.text(*words).split("\0") if name]

    def file(self, path: str, at: str = "HEAD") -> str:
        """Return a file of a commit, or of the index where `at` is empty; "" where there is none."""
        done = self.run("cat-file", "blob", f"{at}:{path}")
        return done.stdout.decode(*BYTES) if done.returncode == 0 else ""
