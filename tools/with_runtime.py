"""Importing this lets a program of tools/ or hooks/ import the runtime and the image tools from their source.

Ctrl-C ends such a program with one line from then on, also while it imports what takes long.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(ROOT / "runtime" / "src"), str(ROOT / "base-images")]

from gpu_repo_runtime import stopped  # noqa: E402 - found by the line above

if Path(sys.argv[0]).resolve().parent in (ROOT / "tools", ROOT / "hooks"):  # and not a test, which imports one
    sys.excepthook = stopped
