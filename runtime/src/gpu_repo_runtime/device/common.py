"""What is said of every device, whichever framework computes on it."""

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from ..words import words_of


class DeviceError(RuntimeError):
    """The GPU was asked for and cannot be used. The message says why and what to do."""


@dataclass(frozen=True)
class Memory:
    """Memory of a GPU in bytes; `used` and `peak` are this process's own."""

    used: int
    free: int
    total: int
    peak: int


def cpu() -> dict[str, str]:
    """Return what `describe` says of the CPU."""
    return {"device": "cpu", "name": platform.processor() or platform.machine(), "driver": "", "cuda": ""}


def driver_version() -> str:
    """Version of the NVIDIA kernel module, "" where there is none (WSL keeps it on the Windows side)."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else ""


def said(error: BaseException) -> str:
    """Return what a library or the driver said, "" for an exception of Python itself: that may repeat an input."""
    return words_of(error) if type(error).__module__ != "builtins" or type(error) is RuntimeError else ""
