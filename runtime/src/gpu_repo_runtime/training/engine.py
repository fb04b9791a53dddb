"""What the loop needs of a framework: each `with_*.py` has an Engine."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .data import begin_random

# The options that a framework may have; an Engine names in `applies` which it has. With the others, task.py decides.
DEFAULTS = {"learning_rate": 0.003, "accumulate": 1, "precision": "auto", "clip": 1.0, "num_workers": 0}


class Engine:
    """Contains `model`, which the task has made, and the optimizer's state. All processes call each method.

    rank, world: the number of this process, and of all. planned: what of a task depends on the number of steps.
    """

    applies: tuple[str, ...] = ()
    planned = "schedule"
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))  # as torchrun sets them
    model: Any
    # Each framework has these.
    learn: Callable[[Any], Any]  # learns from a batch and returns its loss
    validate: Callable[[Any], Any]  # returns what the task's `loss` returns for a batch, without training
    save: Callable[[Path], None]  # writes all that the next part depends on into the folder of a checkpoint
    restore: Callable[[Path], None]
    export: Callable[[Any, Path], None]  # writes the model for a service, unless the task has `save`

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        """Make the model and its optimizer for so many changes of the weights."""
        self.task, self.options = task, options
        begin_random(options.seed)

    def weights(self, folder: Path) -> None:
        """Write what a service needs."""
        getattr(self.task, "save", self.export)(self.model, folder)

    def share(self, indices: Sequence[int]) -> list[list[int]]:
        """Return this process's batches, as many in each process: FSDP waits for all. The last one may be empty."""
        size, first = self.options.batch_size, self.rank * self.options.batch_size
        return [[*indices[at : at + size]] for at in range(first, first + len(indices), size * self.world)]

    def load(self, examples: Any, batches: list[list[int]]) -> Iterable[Any]:
        """Yield the batches of the examples with these indices."""
        return (self.task.collate([examples[index] for index in batch]) for batch in batches)

    def gather(self, values: list[Any]) -> list[Any]:
        """Return the values of all processes, which wait for each other."""
        return values

    def train(self, examples: Any, indices: Sequence[int], part: str) -> float:
        """Learn from examples and return the mean loss over all processes. All that is random depends on the part."""
        begin_random(self.options.seed, part, self.rank)
        losses = [self.learn(batch) for batch in self.load(examples, self.share(indices))]  # on a device, not awaited
        return float(sum(self.gather([float(sum(losses)) / len(losses)])) / self.world)

    def evaluate(self, examples: Any, indices: Sequence[int]) -> dict[str, float]:
        """Return the means of loss and metrics over all processes. An empty batch counts for nothing."""
        begin_random(self.options.seed, self.rank)
        own, batches = [], self.share(indices)
        for batch, loaded in zip(batches, self.load(examples, [batch or [0] for batch in batches]), strict=True):
            found = named(self.validate(loaded), len(batch) or 1)
            own.append((len(batch), {name: float(mean) for name, mean in found.items()}))
        every = self.gather(own)
        return {name: sum(size * one[name] for size, one in every) / len(indices) for name in own[0][1]}


def named(returned: Any, size: int = 1) -> dict[str, Any]:
    """Return what Task.loss returned for a batch of `size` examples by names, "loss" first.

    It is the loss alone, or with a dict of means, or with the number of examples that the network gets right.
    """
    loss, more = returned if isinstance(returned, tuple) else (returned, {})
    return {"loss": loss} | (dict(more) if isinstance(more, Mapping) else {"accuracy": more / size}) | {"loss": loss}
