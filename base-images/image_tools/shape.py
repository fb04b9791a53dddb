"""The shape of the catalogue: which fields it has and of what kind each is, before anything in it is believed."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

from jsonschema import Draft202012Validator

from .catalog import FOLDER, lock_path, read_lock

SCHEMA = FOLDER / "catalog.schema.json"
SHOWN, LONGEST = 5, 160


def shape_problems(catalog: dict[str, Any]) -> list[str]:
    """Return what is wrong with the shape, by the place in the file; the first few of it."""
    errors = Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(catalog)
    found = [f"{place(catalog, list(error.absolute_path))}{short(error.message)}" for error in errors]
    return found[:SHOWN] + ([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])


def place(catalog: dict[str, Any], path: list[Any]) -> str:
    """Return where an error is, with the name of what stands in a list: images, torch-cu13, cuda."""
    words, here = [], catalog
    for step in path:
        here = here[step]
        named = isinstance(step, int) and isinstance(here, dict) and isinstance(here.get("name"), str)
        words.append(here["name"] if named else f"entry {step + 1}" if isinstance(step, int) else str(step))
    return f"{', '.join(words)}: " if words else ""


def short(message: str) -> str:
    """Return a message in one line; what it quotes may be the whole catalogue."""
    line = " ".join(message.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def trim_problems(catalog: dict[str, Any]) -> list[str]:
    """Return trims of rows or packages that are not there: they take nothing out, and nobody would notice."""
    names = [row["name"] for row in catalog["images"]]
    pins = {pin for name in names if lock_path(name).is_file() for pin in read_lock(lock_path(name))}
    found = []
    for number, trim in enumerate(catalog["trims"], 1):
        found += [f"trims, entry {number}: no image {name!r}" for name in trim.get("images", []) if name not in names]
        found += [
            f"trims, entry {number}: no lock has a package {pattern!r}"
            for pattern in trim["packages"]
            if not fnmatch.filter(pins, pattern)
        ]
    return found
