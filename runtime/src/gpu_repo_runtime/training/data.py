"""The order of the examples, their random numbers, and whether they are those of the checkpoint."""

import hashlib
import random
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..batch.exits import BadConfiguration

SAMPLE = 32


def examples_of(task: Any, seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the task's examples to train with and to validate with. Raises BadConfiguration.

    The random numbers begin with the seed: a random split is the same after a restart, and in each process.
    """
    begin_random(seed)
    found = task.data()
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise BadConfiguration(
            "data() of task.py: expected two, the examples to train with and those to validate with; "
            f"got {type(found).__name__}"
        )
    for examples in found:
        if not (hasattr(examples, "__len__") and hasattr(examples, "__getitem__")):
            raise BadConfiguration(
                f"data() of task.py: expected lists or Datasets with a length; got {type(examples).__name__}. Each "
                "epoch has its own order, and a training that resumes starts in the middle of one"
            )
    training, validation = found
    if not len(validation):
        raise BadConfiguration("the task's data has no examples to check with")
    return training, validation


def seed_of(*names: object) -> int:
    """Return a seed that depends on the names alone, so that no state of a generator has to be saved."""
    return zlib.crc32("-".join(map(str, names)).encode())


def begin_random(seed: int) -> None:
    """Start the random numbers of Python, NumPy and PyTorch with a seed."""
    random.seed(seed)
    np.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def shuffled(count: int, seed: str) -> list[int]:
    """Return the indices of the examples in an order that the seed decides."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def collated(
    collate: Callable[[list[Any]], Any], examples: Sequence[Any], batches: list[list[int]], seed: str
) -> Generator[Any]:
    """Yield a batch for each list of indices. Its random numbers depend on the seed and its first index."""
    for indices in batches:
        begin_random(seed_of(seed, indices[0]))
        yield collate([examples[index] for index in indices])


def sample_of(collate: Callable[[list[Any]], Any], *parts: Sequence[Any]) -> str:
    """Return a checksum of some examples of each part, "" if they differ each time.

    Of some, because an example may be a file that is read when it is used.
    """
    first, second = _checksum(collate, parts), _checksum(collate, parts)
    return first if first == second else ""


def _checksum(collate: Callable[[list[Any]], Any], parts: Sequence[Sequence[Any]]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        batches = [[number] for number in range(0, len(part), -(-len(part) // SAMPLE))]
        for batch in collated(collate, part, batches, "sample"):
            for content in _leaves(batch):
                digest.update(content)
    return digest.hexdigest()[:16]


def _leaves(batch: Any) -> Iterator[bytes]:
    """Yield the arrays of a batch of any shape as bytes."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, tuple | list):
        for value in batch:
            yield from _leaves(value)
        return
    # NumPy has no tensors in bfloat16, for example.
    with suppress(TypeError, RuntimeError):
        yield np.asarray(batch).tobytes()
