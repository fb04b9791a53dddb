"""How figures are measured: `python -m benchmarks.PART.PROGRAM`, in the root of the repository.

Importing this lets a program import the rooms below it from their source.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("hooks", "tools", "runtime/src", "base-images", "base-images/recipe/finish")

sys.path[1:1] = [folder for room in ROOMS if (folder := str(ROOT / room)) not in sys.path]
