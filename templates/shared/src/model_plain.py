"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib
from typing import Any

import numpy as np
{% if project_type == 'service' %}
from pydantic import BaseModel
{% endif %}

{% include "templates/shared/src/topics.py" %}
{% include "templates/shared/src/words.py" %}


{% include "templates/shared/src/output.py" %}
class Model:
    """Find the topic of a text: words hashed to vectors, summed up, compared with the words of each topic."""

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
        self.labels = list(TOPICS)
        self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]) -> Any:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        sums = self.table[self.np.asarray(word_ids(texts))].sum(axis=1)
        return sums / self.np.maximum(self.np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)

{% if project_type == 'service' %}
    def predict(self, batch: list[Input]) -> list[Output]:
        """Return one output for each text."""
{% else %}
    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Return one {"label", "score"} for each text; the scores of all labels of a text sum up to 1."""
{% endif %}
        scores = self.np.exp(8 * self.embed(batch) @ self.topics.T)
        scores /= scores.sum(axis=1, keepdims=True)
        best, index = scores.max(axis=1).tolist(), scores.argmax(axis=1).tolist()
{% if project_type == 'service' %}
        return [Output(label=self.labels[i], score=s) for i, s in zip(index, best, strict=True)]
{% else %}
        return [{"label": self.labels[i], "score": s} for i, s in zip(index, best, strict=True)]
{% endif %}
