"""What the runtime asks of its owner's ``model.py``."""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol


class Model(Protocol):
    """The owner's class: ``load`` is called once, then ``predict`` for every batch, both in one thread."""

    @property
    def examples(self) -> Sequence[str]:
        """Texts to measure, warm up and test with."""

    def load(self, device: str) -> None:
        """Bring the model to ``device``, "cpu" or "cuda"."""

    def predict(self, batch: list[str]) -> list[dict[str, Any]]:
        """Return one dict for each text."""


def import_model(package: str) -> Model:
    """Return an object of the class ``Model`` of ``<package>.model``. Raises whatever importing it raises."""
    model: Model = importlib.import_module(f"{package}.model").Model()
    return model
