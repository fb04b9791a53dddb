"""What the command line asks for. Light to import: it stands before the first line of output."""

from __future__ import annotations

from typing import NamedTuple

LEVELS = ["none", "driver", "gpu", "framework", "model"]


class Options(NamedTuple):
    """What the command line asked for; ``gpus`` 0 means all visible ones."""

    mode: str = "node"
    require: str = "none"
    framework: str = "plain"
    model: str = ""
    gpus: int = 0
    timeout_s: float = 120.0
