"""Stands for an owner's model: its answer follows from the text alone, and some texts make it fail."""

import os
import time
import zlib


class Model:
    """Answers with a checksum. What the environment says: SLOW seconds for each batch, ROOM bytes of a padded batch."""

    examples = ("one", "two words")
    tolerance = 0.0

    def load(self, device: str) -> None:
        """Read the environment."""
        self.slow = float(os.environ.get("SLOW", "0"))
        self.room = int(os.environ.get("ROOM", "0"))
        self.calls: list[list[str]] = []

    def predict(self, batch: list[str]) -> list[dict]:
        """Return a label and a score for each text. Raises what the texts ask for."""
        time.sleep(self.slow)
        if self.room and len(batch) * max(map(len, batch), default=0) > self.room:
            raise MemoryError(f"no room for {len(batch)} texts")
        for text in batch:
            if "RAISE" in text:
                raise ValueError(f"this text cannot be: {text[:20]}")
        answers = [{"label": f"{len(t)} characters", "score": zlib.crc32(t.encode()) / 2**32} for t in batch]
        return answers[:-1] if "SHORT" in "".join(batch) else answers
