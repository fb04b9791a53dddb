"""Compare what pyproject.toml requires with requirements*.lock. scripts/lint and scripts/setup run it in the project.

usage: stale_lock

A lock is stale if pyproject.toml was edited, by a person or a bot, without scripts/lock. Exit codes: 0 the locks fit,
1 a lock is stale.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .project import required

PIN = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;\\]+)")


def stale(lock: Path, texts: list[str]) -> list[str]:
    """Return a line for each requirement that the lock does not satisfy. Raises ValueError for an invalid one."""
    pins: dict[str, list[str]] = {}
    for name, version in PIN.findall(lock.read_text(encoding="utf-8")):
        pins.setdefault(canonicalize_name(name), []).append(version)
    lines = []
    for asked in map(Requirement, texts):
        name = canonicalize_name(asked.name)
        if asked.url or name == "gpu-repo-runtime" or (asked.marker and not asked.marker.evaluate()):
            continue
        found = pins.get(name, [])
        if not any(asked.specifier.contains(version, prereleases=True) for version in found):
            lines.append(f"pyproject.toml requires {asked}, {lock} has {' and '.join(found) or 'no version of it'}")
    return lines


def main() -> int:
    """Print what is stale; return the exit code."""
    locks = {Path(name): texts for name, texts in required().items() if Path(name).is_file()}
    try:
        tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8-sig"))
        lines = [line for lock, texts in locks.items() for line in stale(lock, texts)]
    except ValueError as error:
        print(f"pyproject.toml: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    for line in lines:
        print(f"{line}: run scripts/lock and scripts/setup, and commit the locks", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
