"""What is said of every device, whichever framework computes on it."""

import dis
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from ..words import words_of

# The folders of what pip installs, on Debian too.
_PACKAGES = frozenset({"site-packages", "dist-packages"})


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


def raised_by_project(error: BaseException) -> bool:
    """Tell whether a ``raise`` of the project raised it, whose words may repeat an input, and no call of a library."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    if place is None:
        return False
    code = place.tb_frame.f_code
    raised = code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and _PACKAGES.isdisjoint(Path(code.co_filename).parts)


def with_causes(error: BaseException) -> list[BaseException]:
    """Return the error and what led to it."""
    found: list[BaseException] = []
    next_: BaseException | None = error
    while next_ is not None and all(next_ is not one for one in found):
        found.append(next_)
        next_ = next_.__cause__ or next_.__context__  # what "from None" hides has happened all the same
    return found
