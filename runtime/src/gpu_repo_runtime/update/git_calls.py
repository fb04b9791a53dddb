"""Git as the programs around updates call it: no hooks, no password in a command line, a limit where a host is asked.

The environment variable UPDATE_TIME_LIMIT says how many seconds the template's host may take to answer (300).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import unquote

from plumbum import local

GIT_ADVICE = ("fatal: Could not read from remote", "Please make sure you have", "and the repository exists")
LOGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<login>[^/\s'\"]*)@")
SECRET = re.compile(  # a parameter of an address, up to its sign of equality
    r"([A-Za-z][A-Za-z0-9+.-]*://[^\s'\"?#]*\?(?:[^\s'\"#]*&)?"
    r"[\w.-]*(?:token|secret|passw|pwd|key|auth|signature)[\w.-]*=)[^&\s'\"#]+", re.IGNORECASE,
)  # fmt: skip
OF_A_CALLER = (  # set where a hook of git, or an alias, runs the update: then they tell of that command's repository
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
    "GIT_DEFAULT_HASH", "GIT_DEFAULT_REF_FORMAT", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS",
    "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE",
)  # fmt: skip
NOBODY = {  # git and Copier as if nobody had ever set them up: what Copier and its own commands run with
    "COPIER_SETTINGS_PATH": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TEMPLATE_DIR": "",
}
AUTHOR = {  # of commits that Copier makes in passing, whatever a person's variables say
    "GIT_AUTHOR_NAME": "update", "GIT_AUTHOR_EMAIL": "update@example.invalid",
    "GIT_COMMITTER_NAME": "update", "GIT_COMMITTER_EMAIL": "update@example.invalid",
}  # fmt: skip
ASK = '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$UPDATE_USER" "$UPDATE_PASSWORD"; }; f'


class UpdateError(Exception):
    """The update cannot be made; the message says why and what to do. The repository is as it was."""


def environment(**more: str) -> dict[str, str]:
    """Return the environment for git: the caller's repository is not the one meant, and messages are English."""
    return {name: value for name, value in os.environ.items() if name not in OF_A_CALLER} | {"LC_ALL": "C"} | more


def settings(pairs: list[tuple[str, str]], before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give git settings, after those that `before` gives."""
    start = int(before.get("GIT_CONFIG_COUNT") or 0)
    found = {"GIT_CONFIG_COUNT": str(start + len(pairs))}
    for number, (key, value) in enumerate(pairs, start):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def call(
    folder: Path, *arguments: str, stdin: bytes | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`, without the owner's hooks; the exit code is the caller's to judge. Raises UpdateError."""
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
    """Run git in `folder`, without the owner's hooks, and return what it prints. Raises CalledProcessError.

    What is not UTF-8 comes as surrogates, so that it can be written as it was.
    """
    done = call(folder, *arguments, stdin=None if stdin is None else os.fsencode(stdin), more=more)
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, done.args, out, without_password(err))
    return out


def place_of(child: Path, *asked: str) -> str:
    """Return the one path that `git rev-parse` prints, letter by letter: it may begin or end with a space."""
    return git(child, "rev-parse", *asked).removesuffix("\n")


def prefix_of(child: Path) -> str:
    """Return the folder of `child` in its repository, with a slash at its end; "" where it is the repository."""
    return place_of(child, "--show-prefix")


def without_password(text: str) -> str:
    """Return a text without the passwords and tokens of the addresses in it."""

    def plain(found: re.Match[str]) -> str:
        user = "" if found["scheme"].lower().startswith("http") else found["login"].partition(":")[0]
        return found["scheme"] + (f"{user}@" if user else "")

    return without_secrets(LOGIN.sub(plain, text))


def without_secrets(text: str) -> str:
    """Return a text without the values of the parameters of addresses that are named as a secret is."""
    while (shorter := SECRET.sub(r"\1", text)) != text:  # one parameter of each address at a time
        text = shorter
    return text


def login_of(address: str) -> tuple[str, str] | None:
    """Return the user and the password in an address, None where there is no password."""
    found = LOGIN.match(address)
    if not found or without_password(address) == address:
        return None
    user, _, password = found["login"].partition(":")
    return unquote(user), unquote(password)


def remote_settings(address: str) -> dict[str, str]:
    """Return the variables with which git reaches the address: the password in a variable, not in a command."""
    pairs = [("core.hooksPath", os.devnull), ("protocol.ext.allow", "never")]
    pairs += [("http.lowSpeedLimit", "1"), ("http.lowSpeedTime", "60")]
    login = login_of(address)
    found: dict[str, str] = {}
    if login:
        host = re.sub(r"(://[^/]*).*", r"\1", without_password(address))
        pairs += [("credential.helper", ""), (f"credential.{host}.helper", ASK)]
        found |= {"UPDATE_USER": login[0], "UPDATE_PASSWORD": login[1]}
    if not sys.stdin or not sys.stdin.isatty():
        found |= {"GIT_TERMINAL_PROMPT": "0"}
        found |= {} if "GIT_SSH_COMMAND" in os.environ else {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    return found | settings(pairs, os.environ)


def time_limit() -> float:
    """Return how many seconds the template's host may take to answer. Raises UpdateError."""
    text = os.environ.get("UPDATE_TIME_LIMIT") or "300"
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", text) or not float(text):
        raise UpdateError(f"UPDATE_TIME_LIMIT is {text!r}: it takes seconds, for example 300")
    return float(text)


def remote_git(folder: Path, address: str, *arguments: str) -> str:
    """Run git with a host, {} in `arguments` being its address. Raises UpdateError, in time and with the cause."""
    place, limit = without_password(address), time_limit()
    if address.startswith("-"):
        raise UpdateError(f"{address!r} is not an address: it begins with a dash")
    command = ["git", *(place if argument == "{}" else argument for argument in arguments)]
    asking = bool(sys.stdin and sys.stdin.isatty())  # then git and ssh may ask for a password on the terminal
    with TemporaryFile() as out, TemporaryFile() as err:
        try:
            job = subprocess.Popen(
                command, cwd=folder, env=environment(**remote_settings(address)), stdout=out, stderr=err,
                stdin=None if asking else subprocess.DEVNULL, process_group=None if asking else 0,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise UpdateError("git is not installed, or not on the path: install it first") from error
        try:
            code = job.wait(limit)
        except BaseException as error:
            with suppress(ProcessLookupError):
                job.kill() if asking else os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise UpdateError(
                f"the template {place} did not answer in {limit:g} s: try again, or set UPDATE_TIME_LIMIT"
            ) from None
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="surrogateescape"))
    if code:
        raise UpdateError(f"the template {place} cannot be reached: {cause(texts[1])}")
    return texts[0]


def cause(text: str) -> str:
    """Return the line of git's words that says why it stopped, with what to do where git itself is unclear."""
    line = without_password(last_line(text))
    owned = re.search(r"detected dubious ownership in repository at '([^']*)'", text)
    if owned:
        line = (
            f"another user owns {owned[1]}, so git does not read it; "
            f"if you trust it: git config --global --add safe.directory {owned[1]}"
        )
    return line


def last_line(text: str | None) -> str:
    """Return the last line of an error message that says something; git's advice after the cause says nothing."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(GIT_ADVICE)]
    return (telling or lines or ["no message"])[-1]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run what is inside, Copier's commands too, without what this person set up in git and Copier."""
    pairs = [("safe.directory", "*"), ("core.hooksPath", os.devnull), ("commit.gpgSign", "false"), ("gc.auto", "0")]
    quiet = NOBODY | AUTHOR | settings(pairs, {})
    before = dict(os.environ)
    os.environ.update(quiet)
    for name in OF_A_CALLER:
        os.environ.pop(name, None)
    try:
        with local.env(**quiet):
            for name in OF_A_CALLER:
                if name in local.env:
                    del local.env[name]
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
