"""Git and Copier as the programs of this repository call them: no hooks, no password in what is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gpu_repo_runtime.update.git import FROM_A_HOOK, UpdateError

GIT_ADVICE = ("fatal: Could not read from remote", "Please make sure you have", "and the repository exists")
LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\"]*@")


def environment(**more: str) -> dict[str, str]:
    """Return the environment for git: not the repository of a hook that calls this, and messages in English."""
    return (
        {name: value for name, value in os.environ.items() if not name.startswith(FROM_A_HOOK)} | {"LC_ALL": "C"} | more
    )


def call(
    folder: Path, *arguments: str, stdin: bytes | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`, without the owner's hooks; the caller judges the exit code. Raises UpdateError."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env=environment(**(more or {})), capture_output=True, input=stdin, check=False
        )
    except FileNotFoundError as error:
        if shutil.which("git"):
            raise
        raise UpdateError("git is not installed, or not on the path: install it first") from error


def git(folder: Path, *arguments: str, stdin: str | None = None, more: Mapping[str, str] | None = None) -> str:
    """Run git in `folder` and return what it prints; bytes that are not UTF-8 become surrogates.

    Raises CalledProcessError.
    """
    done = call(folder, *arguments, stdin=None if stdin is None else os.fsencode(stdin), more=more)
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, done.args, out, without_password(err))
    return out


def without_password(text: str) -> str:
    """Return a text without the logins of the addresses in it."""
    return LOGIN.sub(r"\1", text)


def cause(text: str) -> str:
    """Return the line of git's output that gives the reason, with what to do where git itself is unclear."""
    owned = re.search(r"detected dubious ownership in repository at '([^']*)'", text)
    if owned:
        return (
            f"another user owns {owned[1]}, so git does not read it; "
            f"if you trust it: git config --global --add safe.directory {owned[1]}"
        )
    return without_password(last_line(text))


def last_line(text: str | None) -> str:
    """Return the last line of an error message, without git's advice."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return ([line for line in lines if not line.startswith(GIT_ADVICE)] or lines or ["no message"])[-1]
