"""One step of training with NumPy on the CPU or CuPy on the GPU: one process, float32, the optimizer AdamW."""

import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..batch.exits import BadConfiguration
from ..device import FRAMEWORKS
from .engine import Recipe

DECAY = 0.01
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8


class Engine:
    """Holds weights and the optimizer's state. rank and world are 0 and 1: it computes on one device.

    learning_rate and clip: of AdamW, and the largest norm of all gradients together.
    """

    suffix = ".npz"
    rank, world = 0, 1

    def __init__(self, task: Any, recipe: Recipe) -> None:
        if recipe.precision not in ("auto", "float32"):
            raise BadConfiguration(f"--precision {recipe.precision} needs the framework {' or '.join(FRAMEWORKS)}")
        self.precision = "float32"
        self.xp: Any = np
        if recipe.device == "cuda":
            import cupy

            self.xp = cupy
        self._task, self._rate, self._clip = task, recipe.learning_rate, recipe.clip
        self._weights = {name: self.xp.asarray(value) for name, value in task.weights(recipe.seed).items()}
        self._means = {name: self.xp.zeros_like(value) for name, value in self._weights.items()}
        self._squares = {name: self.xp.zeros_like(value) for name, value in self._weights.items()}
        self._steps = 0
        self._loss = 0.0

    def collate(self, examples: list[Any]) -> tuple[np.ndarray, ...]:
        """Return examples as arrays."""
        batch: tuple[np.ndarray, ...] = self._task.collate(examples)
        return batch

    def step(self, batches: Sequence[tuple[np.ndarray, ...]], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: nothing here is random."""
        total = {name: self.xp.zeros_like(value) for name, value in self._weights.items()}
        for batch in batches:
            loss, _, gradients = self._task.loss(self._weights, self._moved(batch), self.xp)
            self._loss += loss / len(batches)
            if gradients.keys() != total.keys():
                raise ValueError(f"the loss gave gradients of {sorted(gradients)}, the weights are {sorted(total)}")
            for name, gradient in gradients.items():
                total[name] += gradient / len(batches)
        norm = float(sum(float((gradient**2).sum()) for gradient in total.values())) ** 0.5
        self._steps += 1
        for name, gradient in total.items():
            self._adam(name, gradient * min(1.0, self._clip / (norm + TINY)))

    def take_loss(self) -> float:
        """Return the sum of the losses of all steps since the last call."""
        total, self._loss = self._loss, 0.0
        return total

    def is_lost(self) -> bool:
        """Tell whether a loss since the last call of take_loss is not a number."""
        return math.isnan(self._loss)

    def evaluate(self, batches: Iterator[tuple[int, tuple[np.ndarray, ...]]]) -> tuple[float, float]:
        """Return mean loss and share of right answers over (size, batch)."""
        loss_sum = right_sum = count = 0.0
        for size, batch in batches:
            loss, right, _ = self._task.loss(self._weights, self._moved(batch), self.xp)
            loss_sum, right_sum, count = loss_sum + loss * size, right_sum + right, count + size
        return loss_sum / max(1, count), right_sum / max(1, count)

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set."""
        return flag

    def weights(self) -> bytes:
        """Return the weights alone."""
        return self._to_bytes(self._weights)

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`."""
        state = {f"{kind}-{name}": value for kind, values in self._state().items() for name, value in values.items()}
        notes = json.dumps({"steps": self._steps, "loss": self._loss, "extra": extra})
        return self._to_bytes(state | {"notes": np.frombuffer(notes.encode(), np.uint8)})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Take back what `dump` returned; return its `extra`."""
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            for kind, values in self._state().items():
                for name, value in values.items():
                    found = stored[f"{kind}-{name}"]
                    if found.shape != value.shape:
                        raise ValueError(f"{name} had the shape {found.shape}, now {value.shape}")
                    values[name] = self.xp.asarray(found)
            notes = json.loads(stored["notes"].tobytes())
        self._steps, self._loss = notes["steps"], notes["loss"]
        extra: dict[str, Any] = notes["extra"]
        return extra

    def close(self) -> None:
        """Do nothing: there is no group of processes to leave."""

    def _state(self) -> dict[str, dict[str, Any]]:
        return {"weights": self._weights, "means": self._means, "squares": self._squares}

    def _adam(self, name: str, gradient: Any) -> None:
        mean, square, weights = self._means[name], self._squares[name], self._weights[name]
        mean += (1 - FIRST) * (gradient - mean)
        square += (1 - SECOND) * (gradient**2 - square)
        size = self.xp.sqrt(square / (1 - SECOND**self._steps)) + TINY
        weights -= self._rate * (mean / (1 - FIRST**self._steps) / size + DECAY * weights)

    def _moved(self, batch: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        return tuple(self.xp.asarray(array) for array in batch)

    def _to_bytes(self, arrays: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        np.savez(buffer, **{name: array.get() if hasattr(array, "get") else array for name, array in arrays.items()})
        return buffer.getvalue()
