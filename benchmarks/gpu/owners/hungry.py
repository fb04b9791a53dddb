"""A model that holds a known amount of GPU memory for each input: the text "size:N" takes N GiB, any other 2."""

import re

import torch

GIB = 2**30


class Model:
    """Hold memory, and nothing else."""

    examples = ("size:2", "size:1.5")
    tolerance = 1e-3

    def load(self, device: str) -> None:
        """Hold a quarter of a GiB, as weights would."""
        self.device = device
        self.weights = torch.zeros(GIB // 4, dtype=torch.uint8, device=device)

    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Hold memory for each text, write into it, read it back."""
        held = []
        for text in batch:
            found = re.match(r"size:(\d+\.?\d*)", text)
            size = int(float(found[1] if found else 2) * GIB)
            held.append(torch.empty(size, dtype=torch.uint8, device=self.device))
            held[-1][:: 1 << 20].fill_(1)
        return [{"label": "held", "score": float(block[0])} for block in held]
