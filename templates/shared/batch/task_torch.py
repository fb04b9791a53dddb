"""What is learnt by `train`. Put your own data, network and loss in place of these."""

import torch

from .chapters import CHAPTERS, Example, lines_of_chapters
from .model import BUCKETS, word_ids

DIMENSION = 64


class Task:
    """Tell from a line of Python's language reference, which every Python carries, from which chapter it is."""

    def data(self) -> tuple[list[Example], list[Example]]:
        """Return the examples to learn from and those to check with."""
        lines = lines_of_chapters()
        return [line for number, line in enumerate(lines) if number % 5], lines[::5]

    def network(self) -> torch.nn.Module:
        """Return the network with fresh weights."""
        return torch.nn.Sequential(
            torch.nn.EmbeddingBag(1 + BUCKETS, DIMENSION, mode="mean", padding_idx=0),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(DIMENSION, CHAPTERS),
        )

    def collate(self, examples: list[Example]) -> tuple[torch.Tensor, ...]:
        """Return the examples as tensors on the CPU; a thread does this ahead of the training."""
        words = word_ids([text for text, _ in examples])
        return torch.from_numpy(words), torch.tensor([label for _, label in examples])

    def loss(self, network: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss of a batch, and how many of its examples the network gets right."""
        words, labels = batch
        scores = network(words)
        return torch.nn.functional.cross_entropy(scores, labels), (scores.argmax(dim=1) == labels).sum()
