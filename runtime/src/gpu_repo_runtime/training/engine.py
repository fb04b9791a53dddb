"""What the training needs of a framework; most of it for one process that computes on one device."""

import io
import json
import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..batch.ahead import ahead
from .data import collated


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is trained.

    precision: "float32", "bfloat16", "float16", or "auto" for what the device is good at. learning_rate and clip: of
    the optimizer, and the largest norm of all gradients together. parallel: "ddp" keeps the whole network on each GPU,
    "fsdp" a share of it. gradient_checkpointing: activations inside of the network's blocks are computed again instead
    of kept. loaders: processes that read the data ahead. The last three are for PyTorch alone.
    """

    device: str
    precision: str = "auto"
    learning_rate: float = 0.003
    clip: float = 1.0
    seed: int = 0
    parallel: str = "ddp"
    gradient_checkpointing: bool = False
    loaders: int = 0


class Engine(ABC):
    """Contains weights and the optimizer's state. `rank` and `world`: this process's number, and how many there are."""

    suffix = ".npz"
    rank, world = 0, 1
    precision = "float32"

    def __init__(self, task: Any) -> None:
        self._task = task
        self._loss: Any = 0.0

    @abstractmethod
    def step(self, batches: Sequence[Any], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""

    @abstractmethod
    def validate(self, batch: Any) -> Any:
        """Return what the task's `loss` returns for a batch, without training."""

    @abstractmethod
    def weights(self) -> bytes:
        """Return the weights alone; all processes have to call it."""

    @abstractmethod
    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`; all processes have to call it."""

    @abstractmethod
    def restore(self, content: bytes) -> dict[str, Any]:
        """Load what `dump` returned; return its `extra`."""

    def schedule(self, steps: int) -> bool:
        """Create the task's schedule of the learning rate for so many steps; return whether it has one."""
        return False

    def collate(self, examples: list[Any]) -> Any:
        """Return examples as a batch."""
        return self._task.collate(examples)

    def load(self, examples: Any, batches: list[list[int]], seed: str) -> Generator[Any]:
        """Yield a batch for each list of indices. seed: for augmentation; a batch is the same in each process."""
        return ahead(collated(self.collate, examples, batches, seed), 4)

    def take_loss(self) -> float:
        """Return the sum of the losses of all steps since the last call, the mean over all processes."""
        total, self._loss = float(self._loss), 0.0
        return total

    def is_lost(self) -> bool:
        """Return whether a loss since the last call of take_loss is not a number; all processes have to call it."""
        return math.isnan(float(self._loss))

    def evaluate(self, batches: Iterator[tuple[int, Any]]) -> dict[str, float]:
        """Return the mean loss and metrics over (size, batch) of all processes; a batch of size 0 does not count."""
        sums, count = self._sums(batches)
        return {name: total / max(1, count) for name, total in sums.items()}

    def _sums(self, batches: Iterator[tuple[int, Any]]) -> tuple[dict[str, float], int]:
        sums: dict[str, float] = {}
        count = 0
        for size, batch in batches:
            loss, metrics = loss_and_metrics(self.validate(batch), size)
            for name, mean in {"loss": loss, **metrics}.items():
                sums[name] = sums.get(name, 0.0) + float(mean) * size
            count += size
        return sums, count

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process; all have to call it."""
        return flag

    def is_whole(self, weights: Path) -> bool:
        """Return whether a file of weights is as it was written: an archive with checksums."""
        try:
            with zipfile.ZipFile(weights) as archive:
                return archive.testzip() is None
        except (FileNotFoundError, zipfile.BadZipFile):
            return False

    def close(self) -> None:  # noqa: B027
        """Leave the group of processes, if there is one."""


def loss_and_metrics(returned: Any, size: int) -> tuple[Any, dict[str, Any]]:
    """Return what Task.loss returned as the loss and the means of a batch of `size` examples by their names.

    It is the loss alone, or with a dict of means, or with the number of examples that the network gets right.
    """
    if not isinstance(returned, tuple):
        return returned, {}
    loss, more = returned
    return loss, dict(more) if isinstance(more, Mapping) else {"accuracy": more / max(1, size)}


def to_npz(arrays: Mapping[str, Any], notes: dict[str, Any] | None = None) -> bytes:
    """Return arrays, and notes that JSON can express, as the content of an .npz file."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    if notes is not None:
        found["notes"] = np.frombuffer(json.dumps(notes).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **found)  # type: ignore[arg-type]
    return buffer.getvalue()


def from_npz(content: bytes, now: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays that have the names of `now`, and the notes. Raises ValueError where a shape differs."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        found = {name: stored[name] for name in now}
        notes: dict[str, Any] = json.loads(stored["notes"].tobytes())
    for name, value in now.items():
        if found[name].shape != tuple(value.shape):
            raise ValueError(f"{name} had the shape {found[name].shape}, now {tuple(value.shape)}")
    return found, notes
