"""What was pushed, and the release record, base-images/released.json: which digest each row's children build on."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import registry
from .catalog import BUILD, FOLDER, ImageError, lock_path, sha256_of

RECORD = FOLDER / "released.json"


@dataclass(frozen=True)
class Pushed:
    """What a push left: the image as name@digest, the commit it was made from, and when (the mark of this one push)."""

    image: str
    commit: str
    pushed: str

    @property
    def digest(self) -> str:
        """The digest of the image, sha256:..."""
        return self.image.rpartition("@")[2]


def pushed_file(name: str) -> Path:
    """Return the file where `make push` notes what it pushed, for the machines that test and promote it."""
    return BUILD / "pushed" / f"{name}.json"


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
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ImageError(f"{path}: cannot write the release record: nothing was promoted")


def write_entry(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Set the entry of a row; the file is replaced in one step."""
    record = read_record(path) | {name: entry}
    part = path.with_name(f".part-{path.name}")
    part.write_text(json.dumps(dict(sorted(record.items())), indent=2) + "\n")
    part.replace(path)


def take(_: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Take the records that CI archived, FOLDER/*/released.json with their lists of packages, into the repository's."""
    if not arguments.source_folder:
        raise ImageError("which records? make records FROM=folder, with the archive of a pipeline unpacked in it")
    archived = sorted(Path(arguments.source_folder).glob("*/released.json"))
    found = [path for path in archived if path.resolve() != RECORD.resolve()]
    if not found:
        raise ImageError(f"{arguments.source_folder}: holds no */released.json; unpack the archive of a build there")
    for path in found:
        for name, entry in read_record(path).items():
            (RECORD.parent / entry["sbom"]).parent.mkdir(exist_ok=True)
            shutil.copy(path.parent / entry["sbom"], RECORD.parent / entry["sbom"])
            write_entry(RECORD, name, entry)
            print(f"{name}: {entry['tag']} {entry['digest']}")


def entry(row: dict[str, Any], image: str, tag: str, smoke: dict[str, Any], sbom: str) -> dict[str, Any]:
    """Return what the record keeps of a promotion. image: name@digest. sbom: path from the record to its packages."""
    pushed = registry.look_up(image)
    return {
        "tag": tag,
        "digest": pushed.digest,
        "lock_sha256": sha256_of(lock_path(row["name"])),  # the image's label was compared with it
        "compressed_bytes": pushed.size,
        "layers": list(pushed.layers),
        "smoke": smoke,
        "sbom": sbom,
        "promoted": f"{datetime.now(UTC):%Y-%m-%d}",
    }
