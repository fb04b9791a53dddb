"""A fork in a process's place: it ends, prints, reads its environment and takes signals as a new Python does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked

PROGRAM = """
import json, os, signal, sys

told = [sys.argv[1:], os.environ["OWN"], os.getcwd(), sys.path[0], __name__, "PYTHONPATH" in os.environ]
print(json.dumps(told), flush=True)
print("err", file=sys.stderr)
{end}
"""
ENDS = {
    "returns": "",
    "an exit code": "sys.exit(7)",
    "a message": "sys.exit('why')",
    "an error": "1 / 0",
    "a signal": "os.kill(os.getpid(), signal.SIGKILL)",
    "hang up": "os.kill(os.getpid(), signal.SIGHUP)",
    "at once": "os._exit(3)",
}
Run = Callable[..., subprocess.CompletedProcess[str]]


def as_fork(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return forked.run("program", *arguments, libraries=("json",), **options)


def as_python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "program", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def outcome(run: Run, folder: Path) -> tuple[int, str, str]:
    """Return the exit code, what was printed, and the last line on standard error."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "OWN": "mine"}
    done = run("a", "b c", env=own, cwd=folder)
    return done.returncode, done.stdout, done.stderr.splitlines()[-1]


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_as_a_new_python_does(end: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=ENDS[end]))
    assert outcome(as_fork, tmp_path) == outcome(as_python, tmp_path)


def test_what_is_ignored_here_is_ignored_there(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=ENDS["hang up"]))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ignored = outcome(as_fork, tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ignored[0] == 0
