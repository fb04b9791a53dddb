"""The examples of a task, and random numbers that are the same after a restart."""

import random
import re
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch.exits import BadConfiguration


def begin_random(*names: object) -> int:
    """Start the random numbers of Python, NumPy and PyTorch, and return the seed, which depends on the names alone."""
    seed = zlib.crc32("-".join(map(str, names)).encode())
    random.seed(seed)
    np.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)
    return seed


def examples_of(task: Any, seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the task's examples to train with and to validate with. Raises BadConfiguration.

    The random numbers begin with the seed: a random split is the same after a restart, and in each process.
    """
    begin_random(seed)
    found = task.data()
    two = isinstance(found, tuple | list) and len(found) == 2
    if not (two and all(hasattr(part, "__getitem__") and hasattr(part, "__len__") and len(part) for part in found)):
        wrong = "expected two lists or Datasets with examples, to train with and to validate with"
        raise BadConfiguration(f"data() of task.py: {wrong}; got {repr(found)[:100]}")
    return found[0], found[1]


def fingerprint(*parts: Sequence[Any]) -> str:
    """Return the lengths of the parts, and a checksum of how 16 examples of each are printed.

    The checksum is 0 for examples that differ each time. It may miss a change, and shows none that did not happen.
    """
    texts = []
    for _ in range(2):
        begin_random(0)
        some = [part[at] for part in parts for at in range(0, len(part), -(-len(part) // 16))]
        texts.append(re.sub("0x[0-9a-f]+", "", repr(some)))
    checksum = zlib.crc32(texts[0].encode()) if texts[0] == texts[1] else 0
    return f"{'+'.join(str(len(part)) for part in parts)}, checksum {checksum:08x}"
