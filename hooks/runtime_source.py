"""Importing this lets a program of hooks/ import the rooms below it from their source: tools, image tools, runtime."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT / "tools"), str(ROOT / "runtime" / "src"), str(ROOT / "base-images")]
