"""Advisories in the format of OSV (https://ossf.github.io/osv-schema/): which versions they are about.

It needs packaging, which the development tools of a repository bring along.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

Order = Callable[[object], Any]
LIMIT = 8 << 20  # bytes of one advisory: the longest of PyPI's has under one
PYPI = "PyPI"


def python(text: object) -> Version | None:
    """Return the key of a Python package's version, None for what is none."""
    try:
        return Version(str(text))
    except InvalidVersion:
        return None


def names_of(told: dict[str, Any]) -> set[str]:
    """Return every name of the weakness that an advisory tells of, the one it passes on from included."""
    found = [told["id"], *(told.get("aliases") or ()), *(told.get("upstream") or ())]
    return {str(name) for name in found}


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
