"""Training without a framework for GPUs: an estimator that learns batch by batch, like scikit-learn's partial_fit."""

import io
import pickle
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from ..batch.exits import BadConfiguration
from ..device import FRAMEWORKS
from . import engine
from .data import begin_random, collated
from .engine import Recipe, loss_and_metrics


class Engine(engine.Engine):
    """Contains the task's estimator. The estimator sets the optimizer; a clip of gradients does not apply."""

    suffix = ".pkl"

    def __init__(self, task: Any, recipe: Recipe) -> None:
        super().__init__(task)
        if recipe.precision not in ("auto", "float32"):
            raise BadConfiguration(f"--precision {recipe.precision} needs the framework {' or '.join(FRAMEWORKS)}")
        if recipe.clip != Recipe.clip:
            raise BadConfiguration("--clip does not apply to an estimator: set it in estimator() of task.py")
        begin_random(recipe.seed)
        self._estimator = task.estimator(recipe.learning_rate)
        self._fit = getattr(task, "fit", lambda estimator, batch: estimator.partial_fit(*batch))

    def load(self, examples: Any, batches: list[list[int]], seed: str) -> Generator[Any]:
        """Yield a batch for each list of indices. No thread: the estimator may use NumPy's random numbers."""
        return collated(self.collate, examples, batches, seed)

    def step(self, batches: Sequence[Any], seed: int) -> None:
        """Learn the batches one after the other. seed: for the estimator's random numbers."""
        begin_random(seed)
        for batch in batches:
            self._fit(self._estimator, batch)
            loss, _ = loss_and_metrics(self.validate(batch), 1)
            self._loss += float(loss) / len(batches)

    def validate(self, batch: Any) -> Any:
        """Return what the task's `loss` returns for a batch."""
        return self._task.loss(self._estimator, batch)

    def weights(self) -> bytes:
        """Return the estimator as pickle."""
        # Without references between its parts: which of them share an object changes with a restart.
        content = io.BytesIO()
        pickler = pickle.Pickler(content)
        pickler.fast = True
        pickler.dump(self._estimator)
        return content.getvalue()

    def dump(self, extra: dict[str, Any]) -> bytes:
        """Return everything that the next step depends on, and `extra`."""
        return pickle.dumps({"estimator": self._estimator, "loss": self._loss, "extra": extra})

    def restore(self, content: bytes) -> dict[str, Any]:
        """Load what `dump` returned; return its `extra`."""
        state = pickle.loads(content)
        self._estimator, self._loss = state["estimator"], state["loss"]
        return dict(state["extra"])

    def is_whole(self, weights: Path) -> bool:
        """Return whether a file contains an estimator."""
        try:
            pickle.loads(weights.read_bytes())
        except Exception:
            return False
        return True
