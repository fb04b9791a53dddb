"""Entry for ``python -m gpu_smoke``, for this folder run as a program, and for a file made by ``zipapp``."""

import importlib.machinery
import sys
import types

if not __package__:
    # A zipapp of this folder has no package around its modules: make one, so that relative imports work.
    package = types.ModuleType("gpu_smoke")
    package.__path__ = [sys.path[0]]
    sys.modules["gpu_smoke"] = package
    spec = importlib.machinery.PathFinder.find_spec("__init__", package.__path__)
    exec(spec.loader.get_code("__init__"), package.__dict__)

from gpu_smoke.cli import main

if __name__ == "__main__":
    sys.exit(main())
