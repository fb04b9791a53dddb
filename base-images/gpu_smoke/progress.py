"""What a person at a terminal sees while the walk runs: the layers being asked, in one line that is overwritten."""

from __future__ import annotations

import shutil
import sys

CLEAR = "\r\x1b[K"


def show(layers: list[str]) -> None:
    """Show which layers are asked; none clears the line. Nothing where standard output or error is not a terminal."""
    if sys.stderr.isatty() and sys.stdout.isatty():
        text = f"checking {', '.join(layers[:3])} ..." if layers else ""
        print(f"{CLEAR}{text[: shutil.get_terminal_size().columns - 1]}\r", end="", file=sys.stderr, flush=True)
