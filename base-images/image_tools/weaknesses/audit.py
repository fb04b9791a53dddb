"""The audit as a command: which packages, which databases, what was looked at, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gpu_repo_runtime.advisories import PYPI

from ..catalog import BUILD, ROOT, ImageError, lock_path
from ..record import RECORD, read_record
from .databases import Databases, places_in, read_databases
from .gate import Finding, age, findings, unused
from .packages import DEBIAN, Package, of_bill, of_lock

FINE, STOPPED, NOT_AUDITED = 0, 1, 3
STALE_DAYS = 7


def bill_of(row: str) -> Path | None:
    """Return the newest list of packages of a row: of what was built here, else of what is released."""
    released = read_record(RECORD).get(row, {}).get("sbom")
    candidates = [BUILD / "sbom" / f"{row}.spdx.json", *([RECORD.parent / released] if released else [])]
    return next((path for path in candidates if path.is_file()), None)


def shown(path: Path) -> str:
    """Return a path as people read it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def looked_at(rows: list[str], locks: Iterable[Path]) -> dict[str, set[Package]]:
    """Return the packages of every place: locks, and the lists of the rows' images."""
    places = {shown(path): of_lock(path) for path in [*locks, *(lock_path(row) for row in rows)]}
    return places | {shown(path): of_bill(path) for row in rows if (path := bill_of(row))}


def gaps(rows: list[str], databases: Databases) -> list[str]:
    """Return what was asked for and could not be looked at."""
    if not databases.knows(DEBIAN):
        return []
    return [
        f"{row}: operating system packages were not checked: there is no package list; create one with "
        f"`make sbom IMAGE={row}`"
        for row in rows
        if not bill_of(row)
    ]


def notes(databases: Databases, today: date) -> list[str]:
    """Return what a reader has to know of the databases."""
    found = [
        f"{what} were not checked: none of the databases covers {kind}"
        for kind, what in ((PYPI, "Python packages"), (DEBIAN, "operating system packages"))
        if not databases.knows(kind)
    ]
    days = age(databases.advisories.newest, today)
    if days is not None and days > STALE_DAYS:
        found.append(
            f"the newest advisory is from {databases.advisories.newest[:10]}, {days} days ago: download newer databases"
        )
    return found


def run(catalog: dict[str, Any], rows: list[str], locks: Iterable[Path], given: str) -> int:
    """Audit rows and locks with the databases of `DB=...`; print every finding and return the exit code."""
    today = datetime.now(UTC).date()
    databases = read_databases(places_in(given))
    places = looked_at(rows, locks)
    found = findings(catalog, databases, places, today)
    for line in [one.line() for one in found] + notes(databases, today) + unused(catalog, found):
        print(line)
    missing = gaps(rows, databases)
    for line in missing:
        print(f"audit: {line}", file=sys.stderr)
    stops = [one for one in found if one.stops]
    counts = f"packages: {len(set().union(*places.values()))}, in locks and images: {len(places)}"
    print(f"audit: {counts}, known weaknesses: {len(found)}, blocking a release: {len(stops)}")
    return STOPPED if stops else NOT_AUDITED if missing else FINE


def check_bill(catalog: dict[str, Any], bill: Path, given: str) -> list[Finding]:
    """Return what is known of an image by its list; raise ImageError when that stops its release."""
    databases = read_databases(places_in(given))
    today = datetime.now(UTC).date()
    if unasked := [kind for kind in (PYPI, DEBIAN) if not databases.knows(kind)]:
        raise ImageError(f"DB={given}: does not cover {' and '.join(unasked)}; no tag was set")
    found = findings(catalog, databases, {bill.name: of_bill(bill)}, today)
    if stops := [one.line() for one in found if one.stops]:
        raise ImageError(f"known weaknesses block the release; no tag was set: {'; '.join(stops)}")
    return found
