"""What the loop needs of a framework: each `with_*.py` has an Engine."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .data import Batches, read, seed_of

# The options that a framework may have; an Engine names in `applies` which it has. With the others, task.py decides.
DEFAULTS = {
    "learning_rate": 0.003,
    "accumulate": 1,
    "precision": "auto",
    "clip": 1.0,
    "num_workers": 0,
}


class Engine:
    """Contains weights and the optimizer's state. `rank` and `world`: this process's number, and how many there are.

    scheduled: the learning rate follows the number of all steps, so another number of epochs is another training.
    """

    applies: tuple[str, ...] = ()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))  # as torchrun sets them
    precision = "float32"
    scheduled = False
    # Each framework has these. All processes call them, with the folder of a checkpoint.
    learn: Callable[[Any, int], Any]  # learns from a batch, the seed is for dropout and the like; returns its loss
    validate: Callable[[Any], Any]  # returns what the task's `loss` returns for a batch, without training
    save: Callable[[Path], None]  # writes all that the next batch depends on
    restore: Callable[[Path], None]
    weights: Callable[[Path], None]  # writes what a service needs

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        """Make weights and optimizer for so many changes of the weights."""
        self.task, self.options = task, options

    def load(self, examples: Any, batches: Batches, seed: str) -> Iterable[Any]:
        """Yield each batch. seed: for augmentation; a batch is the same in each process."""
        return (read(self.task.collate, examples, seed, indices) for indices in batches)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, which wait for each other."""
        return [value]

    def train(self, examples: Any, batches: Batches, seed: str, stops: Callable[[], bool]) -> tuple[float, int]:
        """Learn from the batches; return the mean of their losses over all processes, and their number.

        stops: asked after a step whether to end there; processes, which have to agree, are asked after each tenth.
        """
        total, done, every = 0.0, 0, self.options.accumulate * (10 if self.world > 1 else 1)
        for indices, batch in zip(batches, self.load(examples, batches, seed), strict=True):
            total += self.learn(batch, seed_of(seed, indices[0]))  # on a device, not waited for
            done += 1
            if done % every == 0 and any(self.gather(stops())):
                break
        return float(sum(self.gather(float(total))) / self.world / done), done

    def evaluate(self, examples: Any, batches: Batches, seed: str) -> dict[str, float]:
        """Return the means of loss and metrics over all processes. An empty batch counts for nothing."""
        sums: dict[str, float] = {}
        for indices, batch in zip(batches, self.load(examples, [some or [0] for some in batches], seed), strict=True):
            loss, metrics = loss_and_metrics(self.validate(batch), len(indices))
            for name, mean in {"loss": loss, **metrics, "": 1.0}.items():
                sums[name] = sums.get(name, 0.0) + float(mean) * len(indices)
        found = self.gather(sums)
        totals = {name: sum(one[name] for one in found) for name in sums}
        count = totals.pop("")
        return {name: total / count for name, total in totals.items()}


def loss_and_metrics(returned: Any, size: int) -> tuple[Any, dict[str, Any]]:
    """Return what Task.loss returned as the loss and the means of a batch of `size` examples by their names.

    It is the loss alone, or with a dict of means, or with the number of examples that the network gets right.
    """
    if not isinstance(returned, tuple):
        return returned, {}
    loss, more = returned
    return loss, dict(more) if isinstance(more, Mapping) else {"accuracy": more / max(1, size)}
