"""Compare what pyproject.toml requires with requirements*.lock. scripts/lint runs it with the project's Python.

usage: stale_lock

A lock is stale if pyproject.toml was edited, by a person or a bot, without scripts/lock. Exit codes: 0 the locks fit,
1 a lock is stale.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PIN = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\\n]*))?")


def required(folder: Path) -> dict[str, list[str]]:
    """Return the requirements of pyproject.toml for each lock of `folder` that exists; {} if other files have them."""
    locker = folder / "scripts" / "lock"
    if locker.is_file() and " --requirements " in locker.read_text(encoding="utf-8"):  # an adopted repository
        return {}
    try:
        document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8-sig"))
        project = document.get("project", {})
        run = list(project.get("dependencies", []))
        lists = {
            "requirements.lock": run,
            "requirements-gpu.lock": [*run, *project.get("optional-dependencies", {}).get("gpu", [])],
            "requirements-dev.lock": list(document.get("dependency-groups", {}).get("dev", [])),
        }
    except (OSError, ValueError, AttributeError, TypeError):  # scripts/lock reports what is wrong with it
        return {}
    return {
        name: [one for one in some if isinstance(one, str)] for name, some in lists.items() if (folder / name).is_file()
    }


def stale(folder: Path) -> list[str]:
    """Return a line for each requirement that a lock does not satisfy. Raises ImportError without `packaging`."""
    from packaging.markers import Marker
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    lines = []
    for lock, texts in required(folder).items():
        pins: dict[str, list[str]] = {}
        for name, version, marker in PIN.findall((folder / lock).read_text(encoding="utf-8")):
            if not marker.strip() or Marker(marker.strip()).evaluate():
                pins.setdefault(canonicalize_name(name), []).append(version)
        for text in texts:
            try:
                asked = Requirement(text)
            except InvalidRequirement:
                continue
            has_address = asked.url or canonicalize_name(asked.name) == "gpu-repo-runtime"
            if has_address or (asked.marker and not asked.marker.evaluate()):
                continue
            found = pins.get(canonicalize_name(asked.name), [])
            if not any(asked.specifier.contains(version, prereleases=True) for version in found):
                lines.append(f"pyproject.toml requires {text}, {lock} has {' and '.join(found) or 'no version of it'}")
    return lines


def main() -> int:
    """Print what is stale; return the exit code."""
    try:
        lines = stale(Path())
    except ImportError:
        print("lint: the locks are not compared with pyproject.toml: add pytest to the group dev", file=sys.stderr)
        return 0
    for line in lines:
        print(f"lint: {line}: run scripts/lock and scripts/setup, and commit the locks", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
