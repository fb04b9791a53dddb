"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib
from typing import Any

import numpy as np

{% include "templates/shared/src/words.py" %}


class Model:
    """Turn text into vectors: words hashed to vectors and summed up, so that texts that share words are close."""

    # Texts that the smoke test predicts on the CPU and on the GPU; the numbers may differ by at most `tolerance`.
    examples = ("Rain and wind are in the forecast", "The team won the match by one goal", "")
    tolerance = 1e-4

    def load(self, device: str) -> None:
        """Bring the model to `device` ("cpu" or "cuda"): NumPy computes on the CPU, CuPy the same on the GPU."""
        self.np: Any = np
        if device == "cuda":
            import cupy

            self.np = cupy
        self.table = self.np.asarray(hashing_table())

    def embed(self, texts: list[str]) -> Any:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        sums = self.table[self.np.asarray(word_ids(texts))].sum(axis=1)
        return sums / self.np.maximum(self.np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)

    def predict(self, batch: list[str]) -> list[list[float]]:
        """Return the vector of each text as plain numbers."""
        vectors: list[list[float]] = self.embed(batch).tolist()
        return vectors
