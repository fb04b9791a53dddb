"""Models of other kinds than text, as owners would write them; each in a module of its own name."""

from __future__ import annotations

import sys
import textwrap
from types import ModuleType
from typing import Any

IMAGE = """
    from pydantic import BaseModel
    from gpu_repo_runtime.inputs import Bytes


    class Input(BaseModel):
        image: Bytes
        threshold: float = 0.5


    class Parameters(BaseModel):
        top: int = 1


    class Output(BaseModel):
        labels: list[str]
        bright: float


    class Model:
        examples = (Input(image=bytes(range(256))), Input(image=b"\\xff" * 10))

        def load(self, device: str) -> None:
            self.batches = []

        def predict(self, batch: list[Input], parameters: Parameters) -> list[Output]:
            self.batches.append((len(batch), parameters.top))
            found = []
            for one in batch:
                bright = sum(one.image) / 255 / len(one.image)
                names = ["bright" if bright > one.threshold else "dark", "image", "thing"]
                found.append(Output(labels=names[: parameters.top], bright=bright))
            return found

        def size(self, one: Input) -> int:
            return len(one.image)
"""
ROW = """
    Input = list[float]
    Output = float


    class Model:
        examples = ([1.0, 2.0], [0.5, -1.0])
        tolerance = 1e-6

        def load(self, device: str) -> None:
            self.weights = [2.0, 3.0]

        def predict(self, batch: list[Input]) -> list[Output]:
            return [sum(w * x for w, x in zip(self.weights, row)) for row in batch]
"""
DOCUMENT = """
    from pydantic import BaseModel, ConfigDict


    class Line(BaseModel):
        name: str
        price: float
        tags: dict[str, str] = {}


    class Input(BaseModel):
        model_config = ConfigDict(extra="forbid")
        customer: str
        lines: list[Line]


    class Output(BaseModel):
        total: float
        dearest: Line | None


    class Model:
        examples = ({"customer": "a", "lines": [{"name": "x", "price": 1.5}]}, Input(customer="b", lines=[]))

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [
                Output(
                    total=sum(line.price for line in one.lines),
                    dearest=max(one.lines, key=lambda line: line.price, default=None),
                )
                for one in batch
            ]
"""
KINDS = {"image": IMAGE, "row": ROW, "document": DOCUMENT}


def module(source: str, name: str = "kind") -> ModuleType:
    """Return the source of a model.py as the module ``<name>.model``."""
    made = ModuleType(f"{name}.model")
    made.__file__ = f"src/{name}/model.py"
    sys.modules[made.__name__] = made
    exec(compile(textwrap.dedent(source), made.__file__, "exec"), vars(made))
    return made


def model(source: str, name: str = "kind") -> Any:
    """Return an object of the class Model of a source."""
    return module(source, name).Model()
