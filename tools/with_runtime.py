"""Importing this lets a program of tools/ import the runtime and the image tools from their source."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT / "runtime" / "src"), str(ROOT / "base-images")]
