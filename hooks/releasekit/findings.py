"""What the release check found, and what templates/retired.yml permits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version
from releases import order

RETIRED = "templates/retired.yml"
KINDS = ("file", "question", "choice", "image", "validator", "type")
SEEN = ("file", "question", "choice", "image")  # the rendered children show whether one of these is gone
Entry = tuple[str, str]


@dataclass(frozen=True)
class Finding:
    """A reason to reject the release; an entry in templates/retired.yml of this kind and name permits it."""

    reason: str
    kind: str = ""
    name: str = ""


def gone(kind: str, name: str, what: str) -> Finding:
    """Return the finding that something is gone."""
    return Finding(f"{what} is gone: keep it, or list it in {RETIRED} (kind {kind}, name {name})", kind, name)


@dataclass
class Report:
    """The reasons to reject the release, each with the answer sets where it was found."""

    retired: set[Entry]
    reasons: dict[str, list[str]] = field(default_factory=dict)
    used: set[Entry] = field(default_factory=set)

    def add(self, findings: Iterator[Finding], where: str = "") -> None:
        """Record findings; `where` names the answer set."""
        for finding in findings:
            self.used.add((finding.kind, finding.name))
            if (finding.kind, finding.name) not in self.retired:
                self.reasons.setdefault(finding.reason, []).append(where)


def entries_of(template: Path) -> list[dict[str, Any]]:
    """Return the retirement entries of a template. Raises ValueError if they are not a list of mappings."""
    place = template / RETIRED
    found = yaml.safe_load(place.read_text(encoding="utf-8")) if place.exists() else []
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError(f"{RETIRED} is not a list of entries, each with kind, name, version and reason")
    return found


def retired_since(entries: list[dict[str, Any]], version: str) -> set[Entry]:
    """Return kind and name of what was taken away after `version`."""
    return {
        (str(entry.get("kind")), str(entry.get("name")))
        for entry in entries
        if order(str(entry.get("version") or "0.0.0")) > order(version)
    }


def new_entries(old: Path, new: Path) -> list[dict[str, Any]]:
    """Return the entries that the last release did not have; another reason does not make a new entry."""
    known = [{**entry, "reason": ""} for entry in entries_of(old)]
    return [entry for entry in entries_of(new) if {**entry, "reason": ""} not in known]


def following(version: str) -> set[tuple[int, ...]]:
    """Return the versions that may follow: the next patch, minor and major."""
    major, minor, patch = order(version)
    return {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}


def check_entries(old: Path, new: Path, last: str, version: str) -> Iterator[Finding]:
    """Find incomplete retirement entries, and new ones of a version other than the next."""
    versions = {order(version)} if version != last else following(last)
    for entry in entries_of(new):
        missing = [key for key in ("kind", "name", "version", "reason") if not entry.get(key)]
        if missing or entry.get("kind") not in KINDS:
            yield Finding(f"{RETIRED}: {entry} needs name, version, reason, and a kind of {', '.join(KINDS)}")
    for entry in new_entries(old, new):
        try:
            fits = order(str(entry.get("version"))) in versions
        except InvalidVersion:
            fits = False
        if not fits:
            yield Finding(
                f"{RETIRED}: {entry.get('kind')} {entry.get('name')} has version {entry.get('version')}, "
                f"which does not come next after {last}"
            )


def check_version(new: Path, last: str, version: str) -> Iterator[Finding]:
    """Find a version that does not follow the last release or is missing in the changelog."""
    if version == last:
        return
    if order(version) not in following(last):
        yield Finding(f"VERSION is {version}, which does not follow {last}")
    changelog = new / "CHANGELOG.md"
    written = not changelog.exists() or f"## {version}" in changelog.read_text(encoding="utf-8")
    if not written and not Version(version).is_prerelease:
        yield Finding(f"CHANGELOG.md has no section '## {version}'")


def check_unused(report: Report, entries: list[dict[str, Any]]) -> Iterator[Finding]:
    """Find new entries for things that no child loses: they would excuse a loss later."""
    for entry in entries:
        pair = (str(entry.get("kind")), str(entry.get("name")))
        if pair[0] in SEEN and pair in report.retired - report.used:
            yield Finding(f"{RETIRED} lists the {pair[0]} {pair[1]}, but no child loses it: remove the entry")
