"""The release record, base-images/released.json: which digest each row's children build on."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .catalog import FOLDER, ImageError

RECORD = FOLDER / "released.json"


def read_record(path: Path) -> dict[str, Any]:
    """Return the record by row name; an absent file is an empty record."""
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: cannot read the release record: {error}; restore it from git") from error
    if not isinstance(record, dict):
        raise ImageError(f"{path}: expected a JSON object by image name; restore it from git")
    return record


def check_writable(path: Path) -> None:
    """Raise ImageError when the record could not be written, before anything is promoted."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "the file is read-only")
    except OSError as error:
        raise ImageError(f"{path}: cannot write the release record ({error.strerror}): nothing was promoted") from error


def write_entry(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Set the entry of a row; the file is replaced in one step."""
    record = read_record(path) | {name: entry}
    text = json.dumps(dict(sorted(record.items())), indent=2) + "\n"
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def take(_: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Take the records that CI archived, FOLDER/*/released.json with their lists of packages, into the repository's."""
    found = sorted(Path(arguments.source_folder).glob("*/released.json"))
    if not found:
        raise ImageError(f"{arguments.source_folder}: holds no */released.json; unpack the archive of a build there")
    for path in found:
        for name, entry in read_record(path).items():
            (RECORD.parent / entry["sbom"]).parent.mkdir(exist_ok=True)
            shutil.copy(path.parent / entry["sbom"], RECORD.parent / entry["sbom"])
            write_entry(RECORD, name, entry)
            print(f"{name}: {entry['tag']} {entry['digest']}")
