"""The examples of a task, their order and their random numbers, which are the same after a restart."""

import random
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..batch.exits import BadConfiguration

Batches = list[list[int]]  # of each batch the indices of its examples


def examples_of(task: Any, seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the task's examples to train with and to validate with. Raises BadConfiguration.

    The random numbers begin with the seed: a random split is the same after a restart, and in each process.
    """
    begin_random(seed)
    found = task.data()
    two = isinstance(found, tuple | list) and len(found) == 2
    if not (two and all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in found)):
        wrong = "expected two lists or Datasets with a length, to train with and to validate with"
        raise BadConfiguration(f"data() of task.py: {wrong}; got {repr(found)[:100]}")
    if not len(found[1]):
        raise BadConfiguration("data() of task.py: there are no examples to validate with")
    return found[0], found[1]


def seed_of(*names: object) -> int:
    """Return a seed that depends on the names alone, so that no state of a generator has to be saved."""
    return zlib.crc32("-".join(map(str, names)).encode())


def begin_random(seed: int) -> None:
    """Start the random numbers of Python, NumPy and PyTorch with a seed."""
    random.seed(seed)
    np.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def batches_of(indices: Sequence[int], size: int) -> Batches:
    """Return indices in batches of `size`; the last one may be smaller."""
    return [list(indices[at : at + size]) for at in range(0, len(indices), size)]


def shuffled(count: int, seed: str) -> list[int]:
    """Return the indices of so many examples in an order that depends on the seed."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def read(collate: Callable[[list[Any]], Any], examples: Sequence[Any], seed: str, indices: list[int]) -> Any:
    """Return a batch. Augmentation depends on the seed and the first index, in whichever process it is read."""
    begin_random(seed_of(seed, indices[0]))
    if many := getattr(examples, "__getitems__", None):
        return collate(list(many(indices)))
    return collate([examples[index] for index in indices])


def checksum(batches: list[Any]) -> int:
    """Return a checksum of how batches are printed: it may miss a change, and never reports one that did not happen."""
    return zlib.crc32(re.sub("0x[0-9a-f]+", "", repr(batches)).encode())
