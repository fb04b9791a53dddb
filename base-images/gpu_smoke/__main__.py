"""Entry for ``python -m gpu_smoke``, for this folder run as a program, and for a file made by ``zipapp``."""

import sys
import types

if not __package__:
    # A zipapp of this folder has no package around its modules: make one, so that relative imports work.
    package = types.ModuleType("gpu_smoke")
    package.__path__ = [sys.path[0]]
    sys.modules["gpu_smoke"] = package

from gpu_smoke.cli import main

if __name__ == "__main__":
    sys.exit(main())
