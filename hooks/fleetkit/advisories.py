"""Known weaknesses of packages, from advisories in the format of OSV (https://ossf.github.io/osv-schema/) on this disk.

A folder of JSON files or the zip that osv.dev offers of an ecosystem (PyPI/all.zip); nothing is asked of anybody.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from fleetkit.children import FleetError

LIMIT = 8 << 20  # bytes of one advisory: the longest of PyPI's has under one


@dataclass(frozen=True)
class Weakness:
    """What is known of one version of a package; `fixed` is the first later version without it, "" for none."""

    names: tuple[str, ...]
    package: str
    version: str
    fixed: str
    summary: str
    severity: str


@dataclass
class Advisories:
    """The advisories of each package, and how many files held none that can be read."""

    known: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = field(default_factory=dict)
    count: int = 0
    unread: int = 0
    newest: str = ""

    def add(self, text: bytes) -> None:
        """Take one advisory in; one that was withdrawn says nothing any more."""
        try:
            told = json.loads(text)
            affected = [one for one in told["affected"] if one["package"]["ecosystem"] == "PyPI"]
            names = [canonicalize_name(one["package"]["name"]) for one in affected]
            str(told["id"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unread += 1
            return
        self.count += 1
        self.newest = max(self.newest, str(told.get("modified", "")))
        if not told.get("withdrawn"):
            for name, one in zip(names, affected, strict=True):
                self.known.setdefault(name, []).append((told, one))

    def of(self, package: str, version: str) -> list[Weakness]:
        """Return what is known of one version of a package, an advisory of several names once."""
        found: list[Weakness] = []
        for told, affected in self.known.get(canonicalize_name(package), ()):
            if (fixed := fixed_in(affected, version)) is not None:
                names = {str(told["id"]), *(str(name) for name in told.get("aliases") or ())}
                same = [one for one in found if names & set(one.names)]
                found = [one for one in found if one not in same]
                first = same[0] if same else None
                about = told.get("database_specific") or {}
                severity = str(about.get("severity") or "").lower() if isinstance(about, dict) else ""
                found.append(
                    Weakness(
                        tuple(sorted(names.union(*(one.names for one in same)), key=preference)),
                        canonicalize_name(package), version,
                        latest([fixed, *(one.fixed for one in same)]),
                        str(told.get("summary") or (first.summary if first else "")),
                        severity or (first.severity if first else ""),
                    )
                )  # fmt: skip
        return sorted(found, key=lambda one: one.names)


def preference(name: str) -> tuple[int, str]:
    """Return a key that puts the name first under which people know a weakness."""
    kinds = ("CVE-", "GHSA-", "PYSEC-")
    return next((place for place, kind in enumerate(kinds) if name.startswith(kind)), len(kinds)), name


def latest(versions: list[str]) -> str:
    """Return the newest of some versions: only it is without the weakness by every word on it."""
    return max((text for text in versions if text), key=Version, default="")


def version_or_none(text: object) -> Version | None:
    """Return a version, None for what is none."""
    try:
        return Version(str(text))
    except InvalidVersion:
        return None


def affects(events: list[dict[str, Any]], version: Version) -> bool:
    """Tell whether a version lies in a range of events, as the schema says to evaluate them."""
    steps = []
    for event in events:
        for kind, text in event.items():
            at = version_or_none(text)
            if at is not None:
                steps.append((at, kind))
    inside = False
    for at, kind in sorted(steps, key=lambda step: (step[0], step[1] != "fixed")):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    limits = [at for at, kind in steps if kind == "limit"]
    return inside and (not limits or any(version < limit for limit in limits))


def fixed_in(affected: dict[str, Any], version: str) -> str | None:
    """Return the version that is without the weakness, "" where none is named; None where `version` has it not."""
    now = version_or_none(version)
    ranges = [one for one in affected.get("ranges") or () if isinstance(one, dict) and one.get("type") == "ECOSYSTEM"]
    named = {str(one) for one in affected.get("versions") or ()}
    listed = version in named or (now is not None and now in {version_or_none(one) for one in named})
    hit = [one for one in ranges if now is not None and affects(one.get("events") or [], now)]
    if not listed and not hit:
        return None
    ends = [event["fixed"] for one in hit or ranges for event in one.get("events") or [] if "fixed" in event]
    later = sorted(at for end in ends if (at := version_or_none(end)) and (now is None or at > now))
    return str(later[0]) if later else ""


def texts_in(place: Path) -> Iterator[bytes]:
    """Yield the advisories of a folder, a zip or one file."""
    if place.is_dir():
        for file in sorted(place.rglob("*.json")):
            yield file.read_bytes()[:LIMIT]
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as opened:
            for name in opened.namelist():
                if name.endswith(".json"):
                    with opened.open(name) as entry:
                        yield entry.read(LIMIT)
    else:
        yield place.read_bytes()[:LIMIT]


def load_advisories(place: Path) -> Advisories:
    """Return the advisories of a folder of JSON files or a zip of them. Raises FleetError."""
    found = Advisories()
    try:
        for text in texts_in(place):
            found.add(text)
    except (OSError, zipfile.BadZipFile) as error:
        raise FleetError(f"--advisories {place}: it cannot be read: {error}") from error
    if not found.count:
        raise FleetError(
            f"--advisories {place}: it holds no advisory in the format of OSV (osv.dev offers PyPI/all.zip)"
        )
    return found
