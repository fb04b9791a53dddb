"""The platforms of the rows: an image is built on a machine of its platform (linux/amd64 or linux/arm64)."""

from __future__ import annotations

import platform as machine
from typing import Any

from .catalog import DEFAULT_PLATFORM, MACHINES, ImageError, chosen_rows


def own_platform() -> str:
    """Return the platform of this machine; linux/amd64 where no image is made for it."""
    own = {"AMD64": "x86_64", "arm64": "aarch64"}.get(machine.machine(), machine.machine())
    return next((name for name, processor in MACHINES.items() if processor == own), DEFAULT_PLATFORM)


def on_platform(row: dict[str, Any], platform: str) -> dict[str, Any]:
    """Return a row as it is on a platform. Raises ImageError where it has no image for it."""
    if platform not in row["platforms"]:
        raise ImageError(f"{row['name']}: has no image for {platform}: build it on {' or '.join(row['platforms'])}")
    return row | (row["platforms"][platform] or {}) | {"platform": platform}


def rows_on(catalog: dict[str, Any], name: str, platform: str) -> list[dict[str, Any]]:
    """Return the named row on a platform, or all live rows that have an image for it. Raises ImageError."""
    return [on_platform(row, platform) for row in chosen_rows(catalog, name) if name or platform in row["platforms"]]
