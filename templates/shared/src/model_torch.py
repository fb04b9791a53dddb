"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib

import numpy as np
import torch
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
        """Bring the model to `device` ("cpu" or "cuda")."""
        self.device = device
        self.table = torch.from_numpy(hashing_table()).to(device)
        self.labels = list(TOPICS)
        self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]) -> torch.Tensor:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        ids = torch.from_numpy(word_ids(texts)).to(self.device)
        return torch.nn.functional.normalize(self.table[ids].sum(dim=1))

    @torch.inference_mode()
{% if project_type == 'service' %}
    def predict(self, batch: list[Input]) -> list[Output]:
        """Return one output for each text."""
{% else %}
    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Return one {"label", "score"} for each text; the scores of all labels of a text sum up to 1."""
{% endif %}
        scores = torch.softmax(8 * self.embed(batch) @ self.topics.T, dim=1)
        best, index = scores.max(dim=1)
{% if project_type == 'service' %}
        return [Output(label=self.labels[i], score=s) for i, s in zip(index.tolist(), best.tolist(), strict=True)]
{% else %}
        return [{"label": self.labels[i], "score": s} for i, s in zip(index.tolist(), best.tolist(), strict=True)]
{% endif %}
