"""The model. Put your own in place of it: `load` once at the start, `predict` for every batch."""

import re
import zlib

import numpy as np
import torch

{% include "templates/shared/src/words.py" %}


class Model:
    """Turn text into vectors: words hashed to vectors and summed up, so that texts that share words are close."""

    # Texts that the smoke test predicts on the CPU and on the GPU; the numbers may differ by at most `tolerance`.
    examples = ("Rain and wind are in the forecast", "The team won the match by one goal", "")
    tolerance = 1e-4

    def load(self, device: str) -> None:
        """Bring the model to `device` ("cpu" or "cuda")."""
        self.device = device
        self.table = torch.from_numpy(hashing_table()).to(device)

    @torch.inference_mode()
    def embed(self, texts: list[str]) -> torch.Tensor:
        """Return (texts, DIMENSION) float32 vectors of length 1; a text without words becomes zeros."""
        ids = torch.from_numpy(word_ids(texts)).to(self.device)
        return torch.nn.functional.normalize(self.table[ids].sum(dim=1))

    def predict(self, batch: list[str]) -> list[list[float]]:
        """Return the vector of each text as plain numbers."""
        vectors: list[list[float]] = self.embed(batch).tolist()
        return vectors
