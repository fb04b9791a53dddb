"""The platforms that images are made for (linux/amd64, linux/arm64), as the rows of the catalogue name them."""

from __future__ import annotations

import argparse
import platform as machine
import subprocess
from typing import Any

from .catalog import DEFAULT_PLATFORM, MACHINES, ImageError, chosen_rows


def architecture(platform: str) -> str:
    """Return Debian's word for a platform's processor: amd64 or arm64."""
    return platform.rpartition("/")[2]


def suffix(platform: str) -> str:
    """Return what tells names of a platform from those of the first one, which have none: -arm64."""
    return "" if platform == DEFAULT_PLATFORM else f"-{architecture(platform)}"


def asked(arguments: argparse.Namespace) -> str:
    """Return the platform that was asked for (PLATFORM=...), the first one where none was."""
    return str(getattr(arguments, "platform", "") or DEFAULT_PLATFORM)


def own_platform() -> str:
    """Return the platform of this machine; the first one where no image is made for it."""
    own = {"AMD64": "x86_64", "arm64": "aarch64"}.get(machine.machine(), machine.machine())
    return next((name for name, processor in MACHINES.items() if processor == own), DEFAULT_PLATFORM)


def on_platform(row: dict[str, Any], platform: str) -> dict[str, Any]:
    """Return a row as it is on a platform; raise ImageError where it has no image for it."""
    if platform not in row["platforms"]:
        known = ", ".join(row["platforms"])
        raise ImageError(f"{row['name']}: has no image for {platform or 'no platform'}; PLATFORM can be {known}")
    return row | (row["platforms"][platform] or {}) | {"platform": platform}


def rows_on(catalog: dict[str, Any], name: str, platform: str) -> list[dict[str, Any]]:
    """Return the named row on a platform, or all live rows that have it. Raises ImageError."""
    rows = chosen_rows(catalog, name)
    found = [on_platform(row, platform) for row in rows if name or platform in row["platforms"]]
    if not found:
        known = ", ".join(dict.fromkeys(one for row in rows for one in row["platforms"]))
        raise ImageError(f"no image is made for {platform or 'no platform'}; PLATFORM can be {known}")
    return found


def check_buildx() -> None:
    """Raise ImageError where the docker command has no buildx, which reads the build plan."""
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        raise ImageError("docker buildx is not installed here: install it (Debian: apt-get install docker-buildx)")


def check_emulation(platform: str) -> None:
    """Raise ImageError where the engine cannot run programs of the platform, as the operating system's layer needs."""
    if platform == own_platform():
        return
    told = subprocess.run(["docker", "buildx", "inspect"], capture_output=True, text=True, check=False).stdout
    lines = [line.removeprefix("Platforms:") for line in told.splitlines() if line.startswith("Platforms:")]
    if platform not in [name.strip(" *") for line in lines for name in line.split(",")]:
        raise ImageError(
            f"{platform}: this Docker Engine cannot run programs of that platform: install QEMU where it runs "
            "(Debian 13: apt-get install qemu-user-binfmt), or build on such a machine"
        )
