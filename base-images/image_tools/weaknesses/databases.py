"""The databases that a person gives, whatever they are, asked as one."""

from __future__ import annotations

import json
import shlex
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpu_repo_runtime.advisories import PYPI, texts_in

from ..catalog import ImageError
from . import severity
from .debian import Tracker
from .osv import Advisories, Weakness, merged
from .packages import DEBIAN, Package
from .versions import order_of


@dataclass
class Databases:
    """Advisories in the format of OSV, and Debian's tracker."""

    advisories: Advisories = field(default_factory=Advisories)
    tracker: Tracker = field(default_factory=Tracker)

    def knows(self, ecosystem: str) -> bool:
        """Tell whether anything was given that is about an ecosystem: PyPI or Debian."""
        if ecosystem == DEBIAN and self.tracker.packages:
            return True
        return any(name.split(":")[0] == ecosystem for name in self.advisories.ecosystems())

    def of(self, package: Package) -> list[Weakness]:
        """Return what is known of a package; Debian's tracker has neither days nor scores, so others' are taken."""
        if package.kind == PYPI:
            return self.advisories.of(package.name, package.version)
        order = order_of(DEBIAN)
        places = [DEBIAN, f"{DEBIAN}:{package.number}"]
        found = [one for place in places for one in self.advisories.of(package.name, package.version, place)]
        found += [self.completed(one) for one in self.tracker.of(package.name, package.version, package.release)]
        return merged(found, order)

    def completed(self, one: Weakness) -> Weakness:
        """Return a weakness with the worst word and the first day that any advisory has under its name."""
        told = [entry for name in one.names for entry in self.advisories.told.get(name, ())]
        words = [one.severity, *(word for word, _ in told)]
        word = one.severity if one.severity == "unimportant" else severity.worst(words)
        return replace(one, severity=word, published=min((day for _, day in told if day), default=one.published))


def places_in(text: str) -> list[Path]:
    """Return the places of `DB=...`: one, or several separated by spaces. Raises ImageError."""
    try:
        places = [Path(text)] if Path(text).exists() else [Path(part) for part in shlex.split(text)]
    except ValueError as error:
        raise ImageError(f"DB={text}: a quotation mark is missing") from error
    return places


def read_databases(places: list[Path]) -> Databases:
    """Return what all places hold. Raises ImageError: a database that is half there finds half."""
    found = Databases()
    for place in places:
        before = found.advisories.count, len(found.tracker.packages)
        try:
            if place.is_file() and not zipfile.is_zipfile(place):
                read_file(place, found)
            else:
                read_many(place, found)
        except (OSError, zipfile.BadZipFile) as error:
            why = getattr(error, "strerror", None) or error
            raise ImageError(f"{place}: cannot read this database: {why}") from error
        if found.advisories.unread:
            raise ImageError(
                f"{place}: {found.advisories.unread} files are not OSV advisories: "
                "the download may be incomplete, so download it again"
            )
        if (found.advisories.count, len(found.tracker.packages)) == before:
            raise ImageError(
                f"{place}: contains neither OSV advisories (osv.dev offers PyPI/all.zip) nor the JSON of "
                "Debian's tracker (security-tracker.debian.org/tracker/data/json)"
            )
    return found


def read_file(place: Path, found: Databases) -> None:
    """Take in one file: Debian's tracker, or one advisory."""
    text = place.read_bytes()
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{place}: cannot read this database: it is not JSON: {error}") from error
    if not isinstance(told, dict) or not found.tracker.add(told):
        found.advisories.add(text)


def read_many(place: Path, found: Databases) -> None:
    """Take in a folder or a zip of advisories; a folder may hold the tracker's file too."""
    if place.is_dir():
        for file in sorted(place.rglob("*.json")):
            read_file(file, found)
    else:
        for text in texts_in(place):
            found.advisories.add(text)
