"""What is learnt by `train`. Put your own data, weights and gradients in place of these."""

from typing import Any

import numpy as np

from .chapters import CHAPTERS, Example, lines_of_chapters
from .model import BUCKETS, word_ids

DIMENSION = 64
Weights = dict[str, Any]


class Task:
    """Tell from a line of Python's language reference, which every Python carries, from which chapter it is."""

    def data(self) -> tuple[list[Example], list[Example]]:
        """Return the examples to learn from and those to check with."""
        lines = lines_of_chapters()
        return [line for number, line in enumerate(lines) if number % 5], lines[::5]

    def weights(self, seed: int) -> Weights:
        """Return fresh float32 weights by name."""
        random = np.random.default_rng(seed)
        words = random.standard_normal((1 + BUCKETS, DIMENSION), dtype=np.float32)
        words[0] = 0
        scores = random.standard_normal((DIMENSION, CHAPTERS), dtype=np.float32) / np.float32(DIMENSION**0.5)
        return {"words": words, "scores": scores, "bias": np.zeros(CHAPTERS, np.float32)}

    def collate(self, examples: list[Example]) -> tuple[np.ndarray, ...]:
        """Return the examples as arrays; a thread does this ahead of the training."""
        return word_ids([text for text, _ in examples]), np.array([label for _, label in examples])

    def loss(self, weights: Weights, batch: tuple[Any, ...], xp: Any) -> tuple[float, int, Weights]:
        """Return the mean loss of a batch, how many it gets right, and the gradients by name. xp: NumPy or CuPy."""
        words, labels = batch
        count = xp.maximum((words > 0).sum(axis=1, keepdims=True), 1).astype(xp.float32)
        vectors = weights["words"][words].sum(axis=1) / count
        scores = vectors @ weights["scores"] + weights["bias"]
        scores -= scores.max(axis=1, keepdims=True)
        chances = xp.exp(scores) / xp.exp(scores).sum(axis=1, keepdims=True)
        rows = xp.arange(len(labels))
        loss = float(-xp.log(xp.maximum(chances[rows, labels], 1e-12)).mean())
        right = int((scores.argmax(axis=1) == labels).sum())
        error = chances
        error[rows, labels] -= 1
        error /= len(labels)
        of_words = xp.zeros_like(weights["words"])
        of_vectors = xp.repeat(((error @ weights["scores"].T) / count)[:, None], words.shape[1], axis=1)
        xp.add.at(of_words, words, of_vectors)
        of_words[0] = 0
        return loss, right, {"words": of_words, "scores": vectors.T @ error, "bias": error.sum(axis=0)}
