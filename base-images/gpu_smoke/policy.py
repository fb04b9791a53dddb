"""What the command line asks for. Light to import: it stands before the first line of output."""

from __future__ import annotations

import pkgutil
from typing import NamedTuple

from . import layers

# Each framework has a file layers/framework_NAME.py. Where several are installed these count first: others come along
# with packages that can use them.
FIRST = ("torch", "tensorflow")
_FOUND = {module.name.partition("framework_")[2] for module in pkgutil.iter_modules(layers.__path__)}
FRAMEWORKS = (*FIRST, *sorted(_FOUND - {"", *FIRST}))
LEVELS = ["none", "driver", "gpu", "framework", "model"]


class Options(NamedTuple):
    """What the command line asked for; ``gpus`` 0 means all visible ones."""

    mode: str = "node"
    require: str = "none"
    framework: str = "plain"
    model: str = ""
    gpus: int = 0
    timeout_s: float = 120.0
