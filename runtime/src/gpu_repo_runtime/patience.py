"""Run a command that asks a registry, and run it again where the registry was busy; a refusal is final.

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
PAUSES_S: tuple[float, ...] = (2, 10)
LONGEST_S = 3600
# A registry that limits requests (429) or is down for a moment (502, 503, 504) may answer with a code, words or a page
# of its own, and the tools pass on nothing else. So all is tried again but what a later answer would not change.
BUSY = re.compile(
    r"\b(408|425|429|5\d\d)\b|unavailable|too ?many|timeout|timed out|reset by peer|\bEOF\b"
    r"|\b(rate|quotas?|limits?|busy|retry|slow ?down|try again)\b|throttl|overload",
    re.IGNORECASE,
)
REFUSED = re.compile(
    r"\b(400|401|403|404|405|409|410|413|415)\b|unauthori[sz]ed|denied|forbidden|authentication|credentials?\b|permission"
    r"|\b(manifest|name|blob|tag|repository|image)\b[^:]* unknown|unknown (manifest|name|blob)|not found|does not exist"
    r"|no such|\b(manifest|digest|name|size|tag|range)\b[^:]* invalid|invalid (reference|repository|tag|image|user)"
    r"|unsupported|immutable|certificate|x509|HTTPS client|no space left|cannot connect to the docker daemon",
    re.IGNORECASE,
)


def is_passing(said: str, command: list[str]) -> bool:
    """Tell whether what a command said of a registry may be otherwise in a moment. Names of images say nothing."""
    whole = [word.rpartition("://")[2] for word in command if "/" in word]
    names = [*whole, *(re.sub(r"(@|:[^:/]*$).*", "", name) for name in whole)]
    for name in (*names, *(name.partition("/")[2] for name in names)):
        said = said.replace(name, "") if name else said
    return BUSY.search(said) is not None or REFUSED.search(said) is None


def pauses() -> tuple[float, ...]:
    """Return the seconds between tries: those of REGISTRY_PAUSES ("2 10"), at most an hour each."""
    told = os.environ.get("REGISTRY_PAUSES", "").split()
    if not told:
        return PAUSES_S
    if not all(re.fullmatch(r"\d{1,4}(\.\d+)?", word) and float(word) <= LONGEST_S for word in told):
        print(f"REGISTRY_PAUSES is {' '.join(told)!r}, not seconds such as '2 10': not taken", file=sys.stderr)
        return PAUSES_S
    return tuple(map(float, told))


def run(command: list[str], limit: float | None = None, given: str = "") -> tuple[int, str, str]:
    """Run a command, again after each pause; return exit code, what it printed and what it complained of.

    A try that takes longer than `limit` seconds is one that nobody answered. Raises OSError where there is no command.
    """
    answer = 1, "", ""
    for pause in (*pauses(), None):
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, errors="replace", check=False, timeout=limit
            )
            answer = done.returncode, done.stdout, done.stderr.strip()
        except subprocess.TimeoutExpired:
            answer = 1, "", f"timeout: no answer within {limit} s"
        said = answer[2] or "".join(answer[1].splitlines()[-1:])
        if answer[0] <= 0 or pause is None or not is_passing(said, command):
            break
        print(f"the registry is busy, trying again in {pause:g} s: {said[-300:]}", file=sys.stderr, flush=True)
        time.sleep(pause)
    return answer


def main(command: list[str]) -> int:
    """Run the command of the command line; return its exit code."""
    given = command[:1] == ["--input"]
    if not command[given:]:
        print("patience: which command?", file=sys.stderr)
        return 2
    for name in OF_THIS_PROGRAM:
        os.environ.pop(name, None)
    try:
        code, printed, complaint = run(command[given:], given=sys.stdin.read() if given else "")
    except OSError as error:
        print(f"patience: {command[given]}: {error.strerror}", file=sys.stderr)
        return 127
    if complaint:
        print(complaint, file=sys.stderr)
    print(printed, file=sys.stderr if code else sys.stdout, end="")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
