"""The requirements locks of a child: which it has, which versions they hold, and whether a text is such a lock."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_repo_runtime.update.git_calls import git
from packaging.utils import canonicalize_name

PATTERN = "requirements*.lock"
TITLE = "Renew the locks"  # how the commit and the request of a renewal begin
NAME = re.compile(r"requirements[\w.-]*\.lock")
LIMIT = 8 << 20  # bytes of one lock: the largest of ours has a few hundred thousand
PINNED = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)(?:\[[^\]\n]*\])?==([^\s;\\]+)")
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[^\]]*\])?( @ |==)[^\s]+( *;.*?)?( *\\)?")
CONTINUED = re.compile(r"\s+(--hash=sha256:[0-9a-f]{64}( *\\)?|#.*)")


def pinned(texts: list[str]) -> dict[str, set[str]]:
    """Return the versions of each package in locks; one lock may hold several, for several Pythons."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for name, version in PINNED.findall(text):
            found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def why_no_lock(text: str) -> str:
    """Return the first line that does not belong into a lock, nothing where all do.

    An option, an index for example, is none: whoever installs from the lock would follow it.
    """
    for line in text.splitlines():
        if line and not line.startswith("#") and not REQUIREMENT.fullmatch(line) and not CONTINUED.fullmatch(line):
            return line
    return ""


def locks_at(clone: Path, commit: str) -> dict[str, str]:
    """Return the locks in the top folder of a commit: name to text. Raises CalledProcessError."""
    listed = git(clone, "ls-tree", "-z", commit).split("\0")
    rows = [row.split("\t", 1) for row in listed if row]
    plain = [(about.split()[2], name) for about, name in rows if about.startswith("100") and NAME.fullmatch(name)]
    return {name: git(clone, "cat-file", "blob", blob) for blob, name in plain}


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return what changed between two sets of locks, a line a package: `starlette 0.48.0 -> 0.49.1`."""
    before, after = pinned(list(old.values())), pinned(list(new.values()))
    lines = []
    for name in sorted(before.keys() | after.keys()):
        was, now = (", ".join(sorted(held.get(name, ()))) for held in (before, after))
        if was != now:
            lines.append(
                f"{name} {was} -> {now}" if was and now else f"{name} {now} is new" if now else f"{name} {was} is gone"
            )
    return lines
