"""What the runtime asks of its owner's ``model.py``.

::

    Input = str                      # or float, list[float], a pydantic model ...

    class Output(BaseModel): ...     # the same choice

    class Parameters(BaseModel): ... # only if requests choose something; every field has a default

    class Model:
        examples = ("one input", "another one")

        def load(self, device: str) -> None: ...
        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]: ...
        def size(self, one: Input) -> int: ...      # only if inputs differ in what they cost

``predict`` takes no ``parameters`` where there are none. ``gpu_repo_runtime.interface`` reads the types.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol


class Model(Protocol):
    """The owner's class: ``load`` is called once, then ``predict`` for every batch, both in one thread."""

    @property
    def examples(self) -> Sequence[Any]:
        """Inputs to measure, warm up and test with: real ones, as large as they come."""

    def load(self, device: str) -> None:
        """Bring the model to ``device``, "cpu" or "cuda"."""

    @property
    def predict(self) -> Any:
        """Takes a list of inputs, and the parameters where there are any; returns a list with one output for each."""


class ContractError(TypeError):
    """``model.py`` is not what the runtime can work with; the message says what to write."""


def import_model(package: str) -> Model:
    """Return an object of the class ``Model`` of ``<package>.model``. Raises whatever importing it raises."""
    model: Model = importlib.import_module(f"{package}.model").Model()
    return model
