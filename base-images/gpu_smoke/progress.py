"""What a person at a terminal sees while the walk runs: the layers being asked."""

from __future__ import annotations

import shutil
import sys

CLEAR = "\r\x1b[K"


class Progress:
    """One line that is overwritten; nothing where standard output or standard error is not a terminal."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty() and sys.stdout.isatty()

    def names(self, layers: list[str]) -> None:
        """Show which layers are asked next."""
        self._draw(f"checking {', '.join(layers[:3])} ...")

    def clear(self) -> None:
        """Leave no half line behind."""
        if self.shown:
            print(CLEAR, end="", file=sys.stderr, flush=True)

    def _draw(self, text: str) -> None:
        if self.shown:
            width = shutil.get_terminal_size().columns - 1
            print(f"{CLEAR}{text[:width]}\r", end="", file=sys.stderr, flush=True)
