"""Whether a training that goes on is the one that was left: its settings, examples and weights."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from .engine import Task

SAMPLE = 32
# A restart may take other values of these as long as their product is the same.
_STEP = ("batch_size", "accumulate", "world")


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say which settings make a training another one than that of before."""
    names = [name for name in before if now.get(name) != before[name]]
    if math.prod(before[name] for name in _STEP) == math.prod(now[name] for name in _STEP):
        names = [name for name in names if name not in _STEP]
    # The first process has the sample, and not where it says nothing.
    if not (before.get("data") and now.get("data")):
        names = [name for name in names if name != "data"]
    said = {name: f"{name} was {before[name]}, now {now.get(name)}" for name in names}
    return [*(said | ({"data": "the examples are others"} if "data" in said else {})).values()]


def sample_of(task: Task, *parts: Sequence[Any]) -> str:
    """Return a checksum of some examples of each part as the task collates them, "" where each time gives another.

    Of some, because an example may be a file that is read when it is asked for.
    """
    first, second = _checksum(task, parts), _checksum(task, parts)
    return first if first == second else ""


def _checksum(task: Task, parts: Sequence[Sequence[Any]]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for number in range(0, len(part), -(-len(part) // SAMPLE)):
            for array in task.collate([part[number]]):
                digest.update(_bytes(array))
    return digest.hexdigest()[:16]


def _bytes(array: Any) -> bytes:
    try:
        return np.asarray(array).tobytes()
    except (TypeError, RuntimeError):
        # As of a tensor in bfloat16, which NumPy does not have.
        return b""


def is_whole(weights: Path) -> bool:
    """Tell whether a file of weights is there and as it was written: every framework's is an archive with checksums."""
    try:
        with ZipFile(weights) as archive:
            return archive.testzip() is None
    except (FileNotFoundError, BadZipFile):
        return False
