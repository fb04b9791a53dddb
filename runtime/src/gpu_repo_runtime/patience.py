"""Run a command that asks a registry, and run it again where it failed for a reason that may pass.

usage: patience [--input] COMMAND...

--input gives every try what stands on standard input; without it the command reads nothing. What the last try
printed is printed, and its exit code is the exit code. Of a command that failed, all of it goes to standard error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

# How the scripts start this program; a docker's helper that keeps logins may be written in Python too.
OF_THIS_PROGRAM = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE")
PAUSES_S = "2 10"
# What a later answer would not change. All else is tried again: a busy registry (429, 5xx) may answer with any words.
REFUSED = re.compile(
    r"\b40[1345]\b|unauthori[sz]ed|(denied|unknown)(?!: rate|: slow)|forbidden|not found|does not exist|no such"
    r"|immutable|certificate|x509|HTTPS client|no space left|cannot connect to the docker daemon",
    re.IGNORECASE,
)


def tried(command: list[str], limit: float | None, given: str) -> tuple[int, str, str]:
    """Run a command once; return exit code, what it printed and what it complained of."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return 1, "", f"timeout: no answer within {limit} s"
    return done.returncode, done.stdout, done.stderr.strip()


def shown(command: list[str]) -> tuple[int, str, str]:
    """Run a command once and show all that it prints while it runs; it counts as standard output."""
    lines, none, pipe = [], subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        command, stdin=none, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as running:
        try:
            for line in running.stdout or ():
                lines.append(line)
                print(line, end="", file=sys.stderr, flush=True)
        except BaseException:  # this program is ended
            running.kill()
            raise
    return running.returncode, "".join(lines), ""


def run(command: list[str], limit: float | None = None, given: str = "", show: bool = False) -> tuple[int, str, str]:
    """Run a command, again after each pause of REGISTRY_PAUSES ("2 10"); return what the last try gave.

    With `show`, all that it prints appears while it runs. A try that takes longer than `limit` seconds is one that
    nobody answered. Raises OSError where there is no command.
    """
    code, printed, complaint = 1, "", ""
    for pause in [*map(float, (os.environ.get("REGISTRY_PAUSES") or PAUSES_S).split()), None]:
        code, printed, complaint = shown(command) if show else tried(command, limit, given)
        said = complaint or "".join(printed.splitlines()[-1:])
        if code <= 0 or pause is None or REFUSED.search(said):
            break
        print(f"the registry is busy, trying again in {pause:g} s: {said[-300:]}", file=sys.stderr, flush=True)
        time.sleep(pause)
    return code, printed, complaint


def main(command: list[str]) -> int:
    """Run the command of the command line; return its exit code."""
    given = command[:1] == ["--input"]
    for name in OF_THIS_PROGRAM:
        os.environ.pop(name, None)
    code, printed, complaint = run(command[given:], given=sys.stdin.read() if given else "")
    if complaint:
        print(complaint, file=sys.stderr)
    print(printed, file=sys.stderr if code else sys.stdout, end="")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
