"""Importing this lets a program of hooks/ import the runtime from its source; the updater of children is part of it."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "runtime" / "src"))
