"""What the loop needs of a framework: each `with_*.py` has an Engine."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .data import Batches, begin_random, read, seed_of

# The options that a framework may have; an Engine names in `applies` which it has. With the others, task.py decides.
DEFAULTS = {"learning_rate": 0.003, "accumulate": 1, "precision": "auto", "clip": 1.0, "num_workers": 0}


class Engine:
    """Contains `model`, which the task has made, and the optimizer's state. All processes call each method.

    rank, world: the number of this process, and of all. settings: a training with other ones is another training.
    """

    applies: tuple[str, ...] = ()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))  # as torchrun sets them
    model: Any
    # Each framework has these.
    learn: Callable[[Any, int], Any]  # learns from a batch, the seed is for dropout and the like; returns its loss
    validate: Callable[[Any], Any]  # returns what the task's `loss` returns for a batch, without training
    save: Callable[[Path], None]  # writes all that the next batch depends on into the folder of a checkpoint
    restore: Callable[[Path], None]
    export: Callable[[Any, Path], None]  # writes the model for a service, unless the task has `save`

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        """Make the model and its optimizer for so many changes of the weights."""
        self.task, self.options, self.settings = task, options, dict[str, Any]()
        begin_random(options.seed)

    def weights(self, folder: Path) -> None:
        """Write what a service needs."""
        getattr(self.task, "save", self.export)(self.model, folder)

    def load(self, examples: Any, batches: Batches, seed: str) -> Iterable[Any]:
        """Yield each batch. seed: for augmentation; a batch is the same in each process."""
        return (read(self.task.collate, examples, seed, indices) for indices in batches)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, which wait for each other."""
        return [value]

    def share(self, indices: Sequence[int]) -> Batches:
        """Return this process's batches, as many in each process: FSDP waits for all. The last one may be empty."""
        size, first = self.options.batch_size, self.rank * self.options.batch_size
        return [[*indices[at : at + size]] for at in range(first, first + len(indices), size * self.world)]

    def train(self, examples: Any, batches: Batches, seed: str, stops: Callable[[], bool]) -> tuple[float, int]:
        """Learn from the batches; return the mean of their losses over all processes, and the number of steps.

        stops: called after a step, returns whether to end there. Several processes agree on it after each tenth.
        """
        total, done, every = 0.0, 0, self.options.accumulate * (10 if self.world > 1 else 1)
        for indices, batch in zip(batches, self.load(examples, batches, seed), strict=True):
            begin_random(start := seed_of(seed, indices[0]))
            total += self.learn(batch, start)  # on a device, not waited for
            done += 1
            if done % every == 0 and any(self.gather(stops())):
                break
        return sum(self.gather(float(total))) / self.world / done, done // self.options.accumulate

    def evaluate(self, examples: Any, batches: Batches, seed: str) -> dict[str, float]:
        """Return the means of loss and metrics over all processes. An empty batch counts for nothing."""
        loaded = zip(batches, self.load(examples, [some or [0] for some in batches], seed), strict=True)
        own = [(len(indices), means(self.validate(batch), len(indices))) for indices, batch in loaded]
        found = [one for many in self.gather(own) for one in many]
        count = sum(size for size, _ in found)
        return {name: sum(size * one[name] for size, one in found) / count for name in found[0][1]}

    def loss(self, *given: Any) -> Any:
        """Return the loss alone of what the task's `loss` returns."""
        returned = self.task.loss(*given)
        return returned[0] if isinstance(returned, tuple) else returned


def means(returned: Any, size: int) -> dict[str, float]:
    """Return what Task.loss returned for a batch of `size` examples as means by their names, "loss" first.

    It is the loss alone, or with a dict of means, or with the number of examples that the network gets right.
    """
    loss, more = returned if isinstance(returned, tuple) else (returned, {})
    named = more if isinstance(more, Mapping) else {"accuracy": more / max(1, size)}
    return {"loss": float(loss)} | {name: float(mean) for name, mean in named.items()}
