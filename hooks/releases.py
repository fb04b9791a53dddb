"""Which versions of the family were released: a release is the commit that changes VERSION to a plain X.Y.Z."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PLAIN = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


class HistoryError(Exception):
    """The history does not tell the releases; the message says why and what to do."""


def git(repository: Path, *arguments: str) -> str:
    """Run git in `repository` and return what it prints. Raises CalledProcessError."""
    done = subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of X.Y.Z, X.Y.Z.devN or vX.Y.Z, to compare versions by."""
    return tuple(int(number) for number in version.removeprefix("v").split(".")[:3])


def released(repository: Path) -> dict[str, str]:
    """Return the commit of each released version, oldest version first; the newest commit of a version counts.

    What VERSION prepares now (X.Y.Z.devN) and what is later than that is not released.
    Raises HistoryError for a shallow clone, which does not hold every release.
    """
    if git(repository, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise HistoryError(f"{repository} is a shallow clone and does not hold every release: git fetch --unshallow")
    found: dict[str, str] = {}
    for commit in git(repository, "log", "--format=%H", "--diff-filter=AM", "--", "VERSION").split():
        version = git(repository, "show", f"{commit}:VERSION").strip()
        if PLAIN.fullmatch(version):
            found.setdefault(version, commit)
    current = (repository / "VERSION").read_text(encoding="utf-8").strip()
    if not PLAIN.fullmatch(current):
        found = {version: commit for version, commit in found.items() if order(version) < order(current)}
    return {version: found[version] for version in sorted(found, key=order)}


def next_version(repository: Path) -> str:
    """Return the version that the work tree becomes: the one VERSION prepares, else the next patch."""
    current = (repository / "VERSION").read_text(encoding="utf-8").strip()
    plain = current.partition(".dev")[0]
    if current != plain or current not in released(repository):
        return plain
    major, minor, patch = order(current)
    return f"{major}.{minor}.{patch + 1}"
