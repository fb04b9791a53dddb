"""The home folder of whoever runs this; a random user of a container has none."""

from __future__ import annotations

from pathlib import Path


def in_home(*names: str) -> Path | None:
    """Return a path below the home folder, None where HOME is unset and the system does not know the user."""
    try:
        return Path.home().joinpath(*names)
    except RuntimeError:
        return None
