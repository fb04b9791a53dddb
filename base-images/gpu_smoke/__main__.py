"""Entry for ``python -m gpu_smoke``, for this folder run as a program, and for a file made by ``zipapp``."""

import sys

# As one file this meets any Python, older ones too: nothing here may be newer than Python 2.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.stderr.write(
        "gpu-smoke: could not run: it needs Python 3.11 or newer, this is " + sys.version.split()[0] + "\n"
    )
    sys.exit(3)

# `python -m` searches the working folder first, a program's folder is searched first too: nothing in either may stand
# for a module of Python or of a framework.
if not __package__:
    # A zipapp of this folder has no package around its modules: make one, so that relative imports work.
    package = type(sys)("gpu_smoke")
    package.__path__ = [sys.path.pop(0)]
    sys.modules["gpu_smoke"] = package
elif not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]

from gpu_smoke.cli import main

if __name__ == "__main__":
    sys.exit(main())
