"""A decoder-only transformer on made-up tokens: large enough that a GPU pays."""

import atexit
import json
import os

import torch
from torch import nn

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 8192, 256, 512, 8, 8
EXAMPLES = int(os.environ.get("EXAMPLES", "256"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.one(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        return x + self.mlp(self.two(x))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def report() -> None:
    if torch.cuda.is_available() and os.environ.get("MEMORY_REPORT"):
        with open(os.environ["MEMORY_REPORT"], "w") as file:
            json.dump({"peak_allocated_mib": round(torch.cuda.max_memory_allocated() / 2**20)}, file)


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
