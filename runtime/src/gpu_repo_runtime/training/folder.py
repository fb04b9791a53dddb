"""What a training writes: checkpoints that appear whole or not at all, metrics, and weights with their lock."""

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

from ..weights import LOCK, File, Lock, Weights
from ..weights.lockfile import sha256_of

NEW, STATE = ".new", "state.json"


def newest(parent: Path) -> Path | None:
    """Return the checkpoint with the highest number."""
    found = [path for path in parent.glob("*") if path.name.isdecimal()]
    return max(found, key=lambda path: int(path.name), default=None)


def empty(folder: Path) -> None:
    """Make a folder with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def commit(parent: Path, number: int, state: dict[str, Any], keep: int) -> None:
    """Give the folder NEW its number once all is on the disk; delete the other checkpoints, except number `keep`."""
    (parent / NEW / STATE).write_text(json.dumps(state))
    for path in (parent / NEW).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file)
    (parent / NEW).rename(parent / str(number))
    for path in parent.glob("*"):
        if path.name not in (str(number), str(keep)):
            shutil.rmtree(path, ignore_errors=True)


def write_metrics(path: Path, epochs: list[dict[str, Any]]) -> None:
    """Write the epochs as CSV with a header. All have the columns of the first."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(epochs[0]), lineterminator="\n", restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(epochs)


def lock_weights(folder: Path, name: str) -> None:
    """Lock the weights in the folder's subfolder `name`, as scripts/weights and a service read them."""
    paths = [path for path in sorted((folder / name).rglob("*")) if path.is_file()]
    files = [File(str(path.relative_to(folder / name)), path.stat().st_size, sha256_of(path)) for path in paths]
    (folder / LOCK).write_text(Lock((Weights(name, "scripts/train", "", tuple(files)),)).text())
