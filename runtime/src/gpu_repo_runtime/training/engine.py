"""What the training needs of a framework, and which one a task is for."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..batch.exits import BadConfiguration
from ..device import FRAMEWORKS, imported


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    precision: "float32", "bfloat16", "float16", or "auto" for what the device is good at. learning_rate and clip: of
    AdamW, and the largest norm of all gradients together. parallel: "ddp" keeps the whole network on each GPU, "fsdp" a
    share of it. gradient_checkpointing: activations inside of the network's blocks are computed again instead of
    kept. The last two are for PyTorch alone.
    """

    device: str
    precision: str
    learning_rate: float
    clip: float
    seed: int
    parallel: str = "ddp"
    gradient_checkpointing: bool = False


class Task(Protocol):
    """What all tasks of src/<package>/task.py have; network or weights, and the loss, are in a framework's words."""

    def data(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the examples to learn from and those to check with."""
        ...

    def collate(self, examples: list[Any]) -> Any:
        """Return the examples as arrays or tensors on the CPU."""


class Engine(Protocol):
    """Holds weights and the optimizer's state. `rank` and `world` are this process's number and the count of all."""

    suffix: str
    rank: int
    world: int
    precision: str

    def collate(self, examples: list[Any]) -> Any:
        """Return examples as a batch."""

    def step(self, batches: Sequence[Any], seed: int) -> None:
        """Add up the gradients of the batches, clip them, change the weights once. seed: for dropout and the like."""

    def take_loss(self) -> float:
        """Return the sum of the losses of all steps since the last call, the mean over all processes."""
        ...

    def is_lost(self) -> bool:
        """Tell whether a loss since the last call of take_loss is not a number; all processes have to ask."""
        ...

    def evaluate(self, batches: Iterator[tuple[int, Any]]) -> tuple[float, float]:
        """Return mean loss and share of right answers over (size, batch); a batch of size 0 does not count."""
        ...

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set in any process; all have to ask."""
        ...

    def weights(self) -> bytes:
        """Return the weights alone; all processes have to call it."""
        ...

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`; all processes have to call it."""
        ...

    def restore(self, content: bytes) -> dict[str, Any]:
        """Take back what `dump` returned; return its `extra`."""
        ...

    def close(self) -> None:
        """Leave the group of processes."""


def open_engine(task: Any, recipe: Recipe) -> Engine:
    """Return the engine of the framework that the task is written for. Raises BadConfiguration."""
    found = framework_of(task)
    if found != "torch" and (recipe.parallel != "ddp" or recipe.gradient_checkpointing):
        option = "--gradient-checkpointing" if recipe.gradient_checkpointing else f"--parallel {recipe.parallel}"
        raise BadConfiguration(f"{option} needs the framework torch; this task is for {found}")
    module = importlib.import_module(f".with_{'numpy' if found == 'plain' else found}", __package__)
    engine: Engine = module.Engine(task, recipe)
    return engine


def framework_of(task: Any) -> str:
    """Return "plain" for a task that has weights, the framework of one that has a network."""
    if hasattr(task, "weights"):
        return "plain"
    if not hasattr(task, "network"):
        raise BadConfiguration(
            f"the Task of task.py has no network ({', '.join(FRAMEWORKS)}) and no weights (NumPy, CuPy)"
        )
    # What task.py itself imports counts before what else has come with it.
    own = vars(sys.modules[type(task).__module__]).values()
    roots = [str(getattr(value, "__name__", "")).partition(".")[0] for value in own]
    return next(iter((*(name for name in FRAMEWORKS if name in roots), *imported(), FRAMEWORKS[0])))
