"""How far a transfer is, on stderr: a line that moves in a terminal, else one for each so many seconds."""

from __future__ import annotations

import sys
import time

PAUSE_S = 10.0


def say(message: str) -> None:
    """Say what is done, as the scripts do: in one line, whatever a server or the name of a file brings into it."""
    line = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in " ".join(message.splitlines()))
    print(f"weights: {line}", file=sys.stderr, flush=True)


def amount(size: float) -> str:
    """Return bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


class Progress:
    """Counts the bytes of all files together. total: 0 where it is not known."""

    def __init__(self, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._moves = sys.stderr.isatty()
        self._told = time.monotonic()
        self._name = ""

    def file(self, name: str) -> None:
        """Begin a file."""
        self._name = name

    def add(self, size: int) -> None:
        """Count bytes that are there; a negative number takes them back."""
        self.done += size
        now = time.monotonic()
        if now - self._told >= (0.2 if self._moves else PAUSE_S):
            self._told = now
            whole = f" of {amount(self.total)}" if self.total else ""
            text = f"weights: {amount(self.done)}{whole}, {self._name}"
            print(
                f"\r\033[K{text}" if self._moves else text, end="" if self._moves else "\n", file=sys.stderr, flush=True
            )

    def close(self) -> None:
        """Take the moving line away."""
        if self._moves:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
