"""A decoder-only transformer on made-up tokens: large enough that a GPU pays."""

import atexit
import os
from pathlib import Path

import torch
from torch import nn

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 8192, 256, 512, 8, 8
EXAMPLES = int(os.environ.get("EXAMPLES", "256"))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.last = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device, dtype=x.dtype)
        return self.last(self.layers(x, mask, is_causal=True))


def report() -> None:
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    Path(os.environ["MEMORY_REPORT"]).write_text(f"{peak / 2**20:.0f}")


class Task:
    def data(self):
        atexit.register(report)
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(0, WORDS, (EXAMPLES + 32, LENGTH), generator=generator)
        rows[:, 1::2] = (rows[:, ::2] * 7 + 3) % WORDS  # something to learn
        return list(rows[:EXAMPLES]), list(rows[EXAMPLES:])

    def network(self) -> nn.Module:
        return Network()

    def collate(self, examples):
        return (torch.stack(list(examples)),)

    def loss(self, network, batch):
        (ids,) = batch
        scores = network(ids[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1).float(), ids[:, 1:].flatten())
        return loss, (scores[:, -1].argmax(dim=1) == ids[:, -1]).sum()
