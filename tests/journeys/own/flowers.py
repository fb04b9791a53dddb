"""My ONNX model: the kind of a flower from four lengths."""

from pathlib import Path

import numpy as np
from gpu_repo_runtime.onnx import session
from pydantic import BaseModel


class Input(BaseModel):
    lengths: tuple[float, float, float, float]


class Output(BaseModel):
    kind: int
    probability: float


class Model:
    examples = (Input(lengths=(5.1, 3.5, 1.4, 0.2)), Input(lengths=(5.9, 3.0, 5.1, 1.8)))
    tolerance = 1e-4

    def load(self, device: str) -> None:
        self.session = session(Path(__file__).with_name("flowers.onnx"), device)

    def predict(self, batch: list[Input]) -> list[Output]:
        lengths = np.array([one.lengths for one in batch], dtype=np.float32)
        kinds, odds = self.session.run(None, {self.session.get_inputs()[0].name: lengths})
        return [Output(kind=kind, probability=row.max()) for kind, row in zip(kinds, odds, strict=True)]
