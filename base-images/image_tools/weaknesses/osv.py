"""Known weaknesses of packages, from advisories in the format of OSV (https://ossf.github.io/osv-schema/) on this disk.

A folder of JSON files or the zip that osv.dev offers of an ecosystem (PyPI/all.zip, Debian/all.zip).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from . import severity
from .versions import Order, order_of

LIMIT = 8 << 20  # bytes of one advisory: the longest of PyPI's has under one
PYPI = "PyPI"


@dataclass(frozen=True)
class Weakness:
    """What is known of one version of a package; `fixed` is the first later version without it, "" for none."""

    names: tuple[str, ...]
    package: str
    version: str
    fixed: str
    summary: str
    severity: str
    published: str = ""


def normal_name(ecosystem: str, name: str) -> str:
    """Return the name under which a package is kept."""
    return canonicalize_name(name) if ecosystem == PYPI else name


def names_of(told: dict[str, Any]) -> set[str]:
    """Return every name of the weakness that an advisory tells of, the one it passes on from included."""
    found = [told["id"], *(told.get("aliases") or ()), *(told.get("upstream") or ())]
    return {str(name) for name in found}


@dataclass
class Advisories:
    """The advisories of each package, and how many files held none that can be read."""

    known: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = field(default_factory=dict)
    told: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # name -> how bad and since when, in each
    count: int = 0
    unread: int = 0
    newest: str = ""

    def add(self, text: bytes) -> None:
        """Take one advisory in; one that was withdrawn says nothing any more."""
        try:
            told = json.loads(text)
            affected = [one for one in told["affected"] if one.get("package")]
            keys = [(str(one["package"]["ecosystem"]), str(one["package"]["name"])) for one in affected]
            names = names_of(told)
            words = severity.worst(severity.of_advisory(told, one) for one in affected or [{}])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unread += 1
            return
        self.count += 1
        self.newest = max(self.newest, str(told.get("modified", "")))
        if told.get("withdrawn"):
            return
        for name in names:
            self.told.setdefault(name, []).append((words, str(told.get("published") or "")))
        for (ecosystem, name), one in zip(keys, affected, strict=True):
            self.known.setdefault((ecosystem, normal_name(ecosystem, name)), []).append((told, one))

    def ecosystems(self) -> set[str]:
        """Return the ecosystems that the advisories are about."""
        return {ecosystem for ecosystem, _ in self.known}

    def of(self, package: str, version: str, ecosystem: str = PYPI) -> list[Weakness]:
        """Return what is known of one version of a package, an advisory of several names once."""
        order, name = order_of(ecosystem), normal_name(ecosystem, package)
        return merged(
            (
                Weakness(
                    tuple(sorted(names_of(told), key=preference)), name, version, fixed,
                    str(told.get("summary") or ""), severity.of_advisory(told, affected),
                    str(told.get("published") or ""),
                )
                for told, affected in self.known.get((ecosystem, name), ())
                if (fixed := fixed_in(affected, version, order)) is not None
            ),
            order,
        )  # fmt: skip


def merged(found: Iterable[Weakness], order: Order) -> list[Weakness]:
    """Return weaknesses of one version, those that share a name as one: the worst word, the last fix, the first day."""
    kept: list[Weakness] = []
    for one in found:
        same = [other for other in kept if set(one.names) & set(other.names)]
        kept = [other for other in kept if other not in same]
        all_of = [one, *same]
        kept.append(
            Weakness(
                tuple(sorted({name for each in all_of for name in each.names}, key=preference)),
                one.package, one.version,
                max((each.fixed for each in all_of if order(each.fixed) is not None), key=order, default=""),
                next((each.summary for each in all_of if each.summary), ""),
                severity.worst(each.severity for each in all_of),
                min((each.published for each in all_of if each.published), default=""),
            )
        )  # fmt: skip
    return sorted(kept, key=lambda each: each.names)


def preference(name: str) -> tuple[int, str]:
    """Return a key that puts the name first under which people know a weakness."""
    kinds = ("CVE-", "GHSA-", "PYSEC-", "DSA-")
    return next((place for place, kind in enumerate(kinds) if name.startswith(kind)), len(kinds)), name


def affects(events: list[dict[str, Any]], version: Any, order: Order) -> bool:
    """Tell whether a version lies in a range of events, as the schema says to evaluate them."""
    steps = []
    for event in events:
        for kind, text in event.items():
            at = order(text)
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


def fixed_in(affected: dict[str, Any], version: str, order: Order) -> str | None:
    """Return the version that is without the weakness, "" where none is named; None where `version` has it not."""
    now = order(version)
    ranges = [one for one in affected.get("ranges") or () if isinstance(one, dict) and one.get("type") == "ECOSYSTEM"]
    named = {str(one) for one in affected.get("versions") or ()}
    listed = version in named or (now is not None and any(now == order(one) for one in named))
    hit = [one for one in ranges if now is not None and affects(one.get("events") or [], now, order)]
    if not listed and not hit:
        return None
    ends = [event["fixed"] for one in hit or ranges for event in one.get("events") or [] if "fixed" in event]
    later = [end for end in ends if order(end) is not None and (now is None or order(end) > now)]
    return str(min(later, key=order, default=""))


def texts_in(place: Path) -> Iterator[bytes]:
    """Yield the advisories of a folder, a zip or one file. Raises OSError and zipfile.BadZipFile."""
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
