"""Under which licence each Python package of the images is: base-images/licences.yml, held to the locks."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .catalog import FOLDER, ImageError

TABLE = FOLDER / "licences.yml"
TERMS = ("free", "nvidia")


def read_licences(path: Path = TABLE) -> list[dict[str, Any]]:
    """Return the entries {licence, terms, packages}. Raises ImageError."""
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = [{key: one[key] for key in ("licence", "terms", "packages")} for one in told]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ImageError(f"{path}: cannot read the table of licences: {str(error).splitlines()[0]}") from error
    for one in found:
        if one["terms"] not in TERMS:
            raise ImageError(f"{path}: terms of {one['licence']} are {one['terms']!r}, expected {' or '.join(TERMS)}")
    return found


def licence_of(package: str, table: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the entry of a package, None where no list names it."""
    named = (one for one in table if any(fnmatch.fnmatchcase(package, pattern) for pattern in one["packages"]))
    return next(named, None)


def licence_problems(packages: Iterable[str]) -> list[str]:
    """Return the packages whose licence nobody looked at."""
    table = read_licences()
    return [
        f"{name} has no licence in base-images/{TABLE.name}: read what its wheel says, and add it"
        for name in sorted(packages)
        if licence_of(name, table) is None
    ]
