"""What a training writes: checkpoints that appear whole or not at all, metrics, and weights with their lock."""

import csv
import os
import shutil
from pathlib import Path
from typing import Any

from ..weights import LOCK, File, Lock, Weights
from ..weights.lockfile import sha256_of

NEW, BEST = ".new", "best"


def newest(parent: Path) -> Path | None:
    """Return the checkpoint with the highest number."""
    found = [path for path in parent.glob("*") if path.name.isdecimal()]
    return max(found, key=lambda path: int(path.name), default=None)


def begin(parent: Path, keep: bool) -> None:
    """Make the folder NEW, which nobody takes for a whole checkpoint. keep: with the best weights of the last one."""
    new, last = parent / NEW, newest(parent)
    shutil.rmtree(new, ignore_errors=True)
    (new / BEST).mkdir(parents=True)
    if keep and last:
        shutil.copytree(last / BEST, new / BEST, dirs_exist_ok=True)


def commit(parent: Path, number: int) -> None:
    """Give the folder NEW its number once all is on the disk, and delete the other checkpoints."""
    for path in (parent / NEW).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file)
    (parent / NEW).rename(parent / str(number))
    for path in parent.glob("*"):
        if path.name != str(number):
            shutil.rmtree(path, ignore_errors=True)


def write_metrics(path: Path, epochs: list[dict[str, Any]]) -> None:
    """Write the epochs as CSV with a header. All have the columns of the first."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(epochs[0]), lineterminator="\n", restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(epochs)


def leave_weights(best: Path, target: Path, owner: str) -> None:
    """Copy the best weights, with their lock, to where scripts/weights and a service read them."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(best, target / owner)
    paths = [path for path in sorted(best.rglob("*")) if path.is_file()]
    files = tuple(File(path.relative_to(best).as_posix(), path.stat().st_size, sha256_of(path)) for path in paths)
    (target / LOCK).write_text(Lock((Weights(owner, "scripts/train", "", files),)).text())
