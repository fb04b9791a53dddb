"""A model whose device is a clock: it takes a fixed time for each call and for each text, and fails on demand.

The tests put it in the place of a child's model.py; the environment sets the times in milliseconds.
"""

import builtins
import ctypes
import os
import time
import zlib


class Model:
    """Labels texts by their checksum; some texts make it fail."""

    examples = ("one", "two", "three")
    tolerance = 0.0

    def __init__(self) -> None:
        """Read the times and the largest batch that "fits into memory"."""
        self.call_seconds = float(os.environ.get("STANDIN_CALL_MS", "0")) / 1e3
        self.text_seconds = float(os.environ.get("STANDIN_TEXT_MS", "0")) / 1e3
        self.load_seconds = float(os.environ.get("STANDIN_LOAD_MS", "0")) / 1e3
        self.fits = int(os.environ.get("STANDIN_FITS", "1000000"))
        self.batches: list[list[str]] = []

    def load(self, device: str) -> None:
        """Take the loading time, then fail if told to."""
        time.sleep(self.load_seconds)
        if name := os.environ.get("STANDIN_LOAD_RAISES"):
            raise getattr(builtins, name)("on load")

    def predict(self, batch: list[str]) -> list[dict]:
        """Take the time of the batch, fail where a text says so, and label the texts."""
        self.batches.append(list(batch))
        if len(batch) > self.fits:
            raise MemoryError(f"{len(batch)} texts do not fit")
        if "lose the device" in batch:
            lose_device()
        if "hang" in batch:
            time.sleep(3600)
        if self.call_seconds or self.text_seconds:
            time.sleep(self.call_seconds + self.text_seconds * len(batch))
        for text in batch:
            if text == "poison":
                raise ValueError("this text cannot be read")
            if text.startswith("run out of memory"):
                raise MemoryError(text)
            if text.startswith("crash"):
                ctypes.string_at(0)
            if text.startswith("repeat "):
                raise KeyError(text) from ValueError(f"cannot read {text}")
        return [{"label": label(text), "score": float("nan") if text == "nan" else 0.5} for text in batch]


def lose_device() -> None:
    """Raise what PyTorch raises when the GPU is lost."""
    kind = type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})
    raise kind("CUDA error: an illegal memory access was encountered")


def label(text: str) -> str:
    """What the model answers for a text."""
    return f"{zlib.crc32(text.encode()):08x}"
