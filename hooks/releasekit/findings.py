"""What the release check found, and what templates/retired.yml permits."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version
from releases import order

RETIRED = "templates/retired.yml"
KINDS = ("file", "question", "choice", "image")
Entry = tuple[str, str]  # kind and name
Row = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """A reason to reject the release; any of these entries in templates/retired.yml permits it."""

    reason: str
    entries: frozenset[Entry] = frozenset()


def gone(reason: str, *entries: Entry) -> Finding:
    """Return the finding that something is gone, with the entry that would permit it."""
    kind, name = entries[0]
    return Finding(f"{reason}: keep it, or list it in {RETIRED} (kind {kind}, name {name:.60})", frozenset(entries))


@dataclass
class Report:
    """The reasons to reject the release, each with the answer sets where it was found."""

    retired: set[Entry]
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, findings: Iterable[Finding], where: str = "") -> None:
        """Record findings; `where` names the answer set."""
        for finding in findings:
            if not finding.entries & self.retired:
                self.reasons.setdefault(finding.reason, []).append(where)


def read_entries(template: Path) -> list[Row]:
    """Return the retirement entries of a template."""
    return yaml.safe_load((template / RETIRED).read_text(encoding="utf-8")) or []


def retired_since(rows: list[Row], version: str, last: str) -> set[Entry]:
    """Return kind and name of what was taken away after `version`, up to the version that follows `last`."""
    later = [row for row in rows if order(version) < order(str(row.get("version") or "0.0.0")) <= max(following(last))]
    return {(str(row.get("kind")), str(row.get("name"))) for row in later}


def following(version: str) -> set[tuple[int, ...]]:
    """Return the versions that may follow: the next patch, minor and major."""
    major, minor, patch = order(version)
    return {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}


def check_texts(new: Path, last: str, version: str) -> Iterator[Finding]:
    """Find incomplete retirement entries, a version that does not follow the last one, or a missing changelog."""
    for row in read_entries(new):
        if row.get("kind") not in KINDS or not all(row.get(key) for key in ("name", "version", "reason")):
            yield Finding(f"{RETIRED}: {row} needs name, version, reason, and a kind of {', '.join(KINDS)}")
    if version != last and order(version) not in following(last):
        yield Finding(f"VERSION is {version}, which does not follow {last}")
    changelog = (new / "CHANGELOG.md").read_text(encoding="utf-8")
    if version != last and f"## {version}\n" not in changelog and not Version(version).is_prerelease:
        yield Finding(f"CHANGELOG.md has no section '## {version}'")


def unproven_rows(new: Path) -> list[str]:
    """Return the image rows for which base-images/released.json has no smoke test that ran on a GPU."""
    images = new / "base-images"
    record = json.loads((images / "released.json").read_text(encoding="utf-8"))
    rows = yaml.safe_load((images / "catalog.yml").read_text(encoding="utf-8"))["images"]
    names = [row["name"] for row in rows if row["state"] != "retired"]
    return [name for name in names if not record.get(name, {}).get("smoke", {}).get("on_a_gpu")]
