"""Importing this lets a program of tools/ import the runtime from its source."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "runtime" / "src"))
