"""The released versions of a template: which there are, what each says of itself, what changed between two."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import InvalidVersion, Version
from update_outcome import git

GIT_ADVICE = ("fatal: Could not read from remote", "Please make sure you have", "and the repository exists")


class UpdateError(Exception):
    """The update cannot be made; the message says why and what to do. The repository is as it was."""


@dataclass(frozen=True)
class Release:
    """One version of the template: its tag and what it says of itself."""

    tag: str
    changelog: str
    questions: tuple[str, ...]


def version_of(tag: str) -> Version | None:
    """Return the version that a tag names, or None."""
    try:
        return Version(tag)
    except InvalidVersion:
        return None


@cache
def versions(source: str) -> dict[Version, str]:
    """Return the released versions of the template and their tags, oldest first. Raises UpdateError."""
    try:
        listed = git(Path.cwd(), "ls-remote", "--tags", "--refs", source)
    except subprocess.CalledProcessError as error:
        raise UpdateError(f"the template {source} cannot be reached: {last_line(error.stderr)}") from error
    tags = {line.split("refs/tags/", 1)[1] for line in listed.splitlines()}
    found = {version: tag for tag in tags if (version := version_of(tag)) and not version.is_prerelease}
    return dict(sorted(found.items()))


@cache
def release(source: str, tag: str) -> Release:
    """Fetch one version of the template and return what it says of itself. Raises UpdateError."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        git(place, "init", "--quiet", "--bare")
        git(place, "fetch", "--quiet", "--depth=1", source, f"refs/tags/{tag}")
        names = git(place, "ls-tree", "--name-only", "FETCH_HEAD").splitlines()
        texts = {
            name: git(place, "show", f"FETCH_HEAD:{name}") for name in ("CHANGELOG.md", "copier.yml") if name in names
        }
    entries = re.findall(r"(?ms)^([a-z]\w*):(.*?)(?=^\S|\Z)", texts.get("copier.yml", ""))
    asked = tuple(name for name, text in entries if not re.search(r"\bwhen: false\b", text))  # else it is computed
    return Release(tag, texts.get("CHANGELOG.md", ""), asked)


def changes_between(changelog: str, old: str, new: str) -> str:
    """Return the sections of the changelog after version `old` up to `new`."""
    low, high = version_of(old), version_of(new)
    told = []
    for section in re.split(r"(?m)^(?=## )", changelog):
        heading = re.match(r"## \[?v?([0-9][^\]\s]*)", section)
        version = version_of(heading[1]) if heading else None
        if version and high and (low is None or low < version) and version <= high:
            told.append(section.strip())
    return "\n\n".join(told)


def last_line(text: str | None) -> str:
    """Return the last line of an error message that says something; git's advice after the cause says nothing."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(GIT_ADVICE)]
    return (telling or lines or ["no message"])[-1]
