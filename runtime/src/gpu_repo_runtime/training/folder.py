"""The folder of a training: checkpoints that appear whole or not at all, metrics, the best weights with their lock."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import csv

from ..batch.exits import BadConfiguration, JobError
from ..weights import LOCK, File, Lock, Weights
from ..weights.lockfile import sha256_of

CHECKPOINTS, NEW, STATE, WEIGHTS = "checkpoint", ".new", "state.json", "weights"


def locked(output: Path, rank: int) -> TextIO:
    """Make the folder and return its lock file, which keeps other trainings out while it is open. Raises JobError."""
    if ":" in output.parts[0] or output.is_file():
        raise BadConfiguration(f"--output {output}: a training writes to a folder on a disk")
    output.mkdir(parents=True, exist_ok=True)
    file = (output / ".lock").open("w")
    try:
        if not rank:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # reading processes do not inherit it
    except BlockingIOError:
        raise JobError(f"another training is at work in {output}: wait for its end, or take another") from None
    except OSError:
        pass  # a disk without locks
    return file


def newest(output: Path) -> Path | None:
    """Return the last checkpoint. Its name has the number of epochs that are done, and of steps since."""
    found = (output / CHECKPOINTS).glob("[0-9]*-*")
    return max(found, key=lambda path: [int(number) for number in path.name.split("-")], default=None)


def commit(output: Path, state: dict[str, Any]) -> None:
    """Give the new checkpoint its name once it is on the disk; delete the others, except that of the best epoch."""
    folder, epochs = output / CHECKPOINTS, state["epochs"]
    if epochs:
        columns = {name: [row.get(name) for row in epochs] for name in epochs[-1]}
        csv.write_csv(pa.table(columns), output / "metrics.csv")
    (folder / NEW / STATE).write_text(json.dumps(state))
    for path in filter(Path.is_file, (folder / NEW).rglob("*")):
        with path.open("rb") as file:
            os.fsync(file)
    name = f"{len(epochs)}-{state['step']}"
    (folder / NEW).rename(folder / name)
    for path in folder.glob("*"):
        if path.name not in (name, f"{best(epochs)['epoch']}-0"):
            shutil.rmtree(path, ignore_errors=True)


def publish(output: Path, name: str, state: dict[str, Any]) -> None:
    """Leave the best weights as scripts/weights and a service read them and, last, the summary."""
    row, place = best(state["epochs"]), output / WEIGHTS / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(output / CHECKPOINTS / f"{row['epoch']}-0" / WEIGHTS, place)
    paths = [path for path in sorted(place.rglob("*")) if path.is_file()]
    files = [File(str(path.relative_to(place)), path.stat().st_size, sha256_of(path)) for path in paths]
    (output / WEIGHTS / LOCK).write_text(Lock((Weights(name, "scripts/train", "", tuple(files)),)).text())
    summary = {"best": row, "epochs": len(state["epochs"]), "settings": state["settings"]}
    (output / "result.json").write_text(json.dumps(summary, indent=1) + "\n")


def best(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first epoch with the lowest validation loss."""
    return min(epochs, key=lambda row: row["loss"], default={"epoch": 0})
