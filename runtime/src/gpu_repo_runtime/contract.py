"""What the runtime asks of its owner's ``model.py``.

::

    Input = str                      # or float, list[float], a pydantic model ...

    class Output(BaseModel): ...     # the same choice

    class Parameters(BaseModel): ... # only if requests choose something (then predict takes it); fields have defaults

    class Model:
        examples = ("one input", "another one")

        def load(self, device: str) -> None: ...    # or (self, device: str, weights: Path), see docs/weights.md
        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]: ...
        def size(self, one: Input) -> int: ...      # only if inputs differ in what they cost
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Protocol


class Model(Protocol):
    """The owner's class: ``load`` is called once, then ``predict`` for every batch, both in one thread."""

    examples: Any  # inputs to measure, warm up and test with: real ones, as large as they come

    def load(self, *given: Any, **named: Any) -> Any: ...

    def predict(self, *given: Any, **named: Any) -> Any: ...


class ContractError(TypeError):
    """``model.py`` is not what the runtime can work with; the message says what to write."""


def import_model(package: str) -> Model:
    """Return an object of the class ``Model`` of ``<package>.model``.

    Raises ContractError where there is none, or whatever importing it raises.
    """
    module = importlib.import_module(f"{package}.model")
    if not callable(getattr(module, "Model", None)):
        raise ContractError(f"{module.__file__}: there is no class Model: write class Model with load and predict")
    model: Model = module.Model()
    return model


def refuse_async(function: Callable[..., Any], name: str) -> None:
    """Raise ContractError for a function whose call runs nothing of it: one of async def, or with yield."""
    called = inspect.unwrap(function)
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise ContractError(f"{name} is async def, and nothing awaits it: write def")
    if inspect.isgeneratorfunction(called):
        raise ContractError(f"{name} has a yield, and nothing of it runs: write a function without")
