"""Which versions of the family were released: a release is a tag vX.Y.Z, or else the commit that changes VERSION."""

from __future__ import annotations

from pathlib import Path

from git_calls import git
from gpu_repo_runtime.update.git import Git
from gpu_repo_runtime.update.releases import version_commits
from packaging.version import InvalidVersion, Version


class HistoryError(Exception):
    """The history does not tell the releases; the message says why and what to do."""


def version_of(tag: str) -> Version | None:
    """Return the version that a tag names, or None."""
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def order(version: str) -> tuple[int, ...]:
    """Return the numbers of X.Y.Z, X.Y.Z.devN, X.Y.ZrcN or vX.Y.Z, to compare versions by."""
    return (*Version(version).release, 0, 0)[:3]


def current(repository: Path) -> str:
    """Return what VERSION says in the work tree."""
    return (repository / "VERSION").read_text(encoding="utf-8").strip()


def written(repository: Path) -> dict[Version, str]:
    """Return the commit of each version that VERSION named, pre-releases included, oldest version first.

    What VERSION prepares now (X.Y.Z.devN) and what is later than that is not released.
    Raises HistoryError for a shallow clone, which does not hold every release.
    """
    if git(repository, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise HistoryError(f"{repository} is a shallow clone and does not hold every release: git fetch --unshallow")
    return version_commits(Git(repository), "HEAD", current(repository))


def tags(repository: Path) -> dict[Version, dict[str, str]]:
    """Return the tags that name a version, and their commits: v1.0.0 comes before 1.0.0."""
    form = "--format=%(refname:lstrip=2)%09%(objectname)%09%(*objectname)"
    rows = [line.split("\t") for line in git(repository, "for-each-ref", form, "refs/tags").splitlines()]
    found: dict[Version, dict[str, str]] = {}
    for name, outer, inner in sorted(rows, key=lambda row: not row[0].startswith("v")):
        if version := version_of(name):
            found.setdefault(version, {})[name] = inner or outer
    return found


def released(repository: Path) -> dict[str, str]:
    """Return the commit of each released version, oldest version first: that of its tag, else that of VERSION.

    Pre-releases are left out. Raises HistoryError for a shallow clone, which does not hold every release.
    """
    tagged = tags(repository)
    found = {
        version: next(iter(tagged[version].values())) if version in tagged else commit
        for version, commit in written(repository).items()
        if not version.is_prerelease
    }
    return {str(version): commit for version, commit in found.items()}


def next_version(repository: Path) -> str:
    """Return the version that the work tree becomes: the one VERSION prepares, else the next patch."""
    text = current(repository)
    plain = Version(text).base_version
    if text != plain or text not in released(repository):
        return plain
    major, minor, patch = order(text)
    return f"{major}.{minor}.{patch + 1}"
