"""Importing this lets a program of hooks/ import the rooms below it from their source: tools, image tools, runtime."""

import sys
from pathlib import Path

sys.path[1:1] = [str(Path(__file__).resolve().parent.parent / "tools")]

import with_runtime  # noqa: E402, F401 - found by the line above
