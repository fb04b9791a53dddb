"""Training without a framework for GPUs: an estimator that learns batch by batch, like scikit-learn's partial_fit."""

import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

from . import engine


class Engine(engine.Engine):
    """Contains the task's estimator, which has its optimizer itself."""

    applies = ("learning_rate",)

    def __init__(self, task: Any, options: Namespace, steps: int) -> None:
        super().__init__(task, options, steps)
        self.model = task.estimator(options.learning_rate)
        self._fit = getattr(task, "fit", lambda estimator, batch: estimator.partial_fit(*batch))

    def learn(self, batch: Any) -> float:
        self._fit(self.model, batch)
        return float(engine.named(self.validate(batch))["loss"])

    def validate(self, batch: Any) -> Any:
        return self.task.loss(self.model, batch)

    def save(self, folder: Path) -> None:
        self.export(self.model, folder)

    def restore(self, folder: Path) -> None:
        self.model = pickle.loads((folder / "best.pkl").read_bytes())

    def export(self, estimator: Any, folder: Path) -> None:
        with (folder / "best.pkl").open("wb") as file:
            pickler = pickle.Pickler(file)
            # Without references between its parts: which of them share an object changes with a restart.
            pickler.fast = True
            pickler.dump(estimator)
