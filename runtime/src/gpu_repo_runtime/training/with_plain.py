"""Training without a framework for GPUs: an estimator that learns batch by batch, like scikit-learn's partial_fit."""

import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

from . import engine
from .data import begin_random
from .engine import loss_and_metrics


class Engine(engine.Engine):
    """Contains the task's estimator, which has its optimizer itself."""

    applies = ("learning_rate", "accumulate")

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        begin_random(options.seed)
        self._estimator = task.estimator(options.learning_rate)
        self._fit = getattr(task, "fit", lambda estimator, batch: estimator.partial_fit(*batch))

    def learn(self, batch: Any, seed: int) -> float:
        begin_random(seed)
        self._fit(self._estimator, batch)
        return float(loss_and_metrics(self.validate(batch), 1)[0])

    def validate(self, batch: Any) -> Any:
        return self.task.loss(self._estimator, batch)

    def save(self, folder: Path) -> None:
        self._pickle(folder / "estimator.pkl")

    def restore(self, folder: Path) -> None:
        self._estimator = pickle.loads((folder / "estimator.pkl").read_bytes())

    def weights(self, folder: Path) -> None:
        own = getattr(self.task, "save", lambda estimator, to: self._pickle(to / "best.pkl"))
        own(self._estimator, folder)

    def _pickle(self, path: Path) -> None:
        with path.open("wb") as file:
            pickler = pickle.Pickler(file)
            # Without references between its parts: which of them share an object changes with a restart.
            pickler.fast = True
            pickler.dump(self._estimator)
