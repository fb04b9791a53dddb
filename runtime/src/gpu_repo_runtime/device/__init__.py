"""Which device to compute on, and what is known about it.

Each framework has its own words for that, in a module with_NAME beside this one. The one that counts is the one that
the model's code imports: ask only after model.py was imported. Where it imports none before its ``load``, the one that
is installed counts.
"""

import importlib
import importlib.util
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import is_device_lost, is_out_of_memory, reported

__all__ = (
    "DeviceError",
    "Memory",
    "choose",
    "describe",
    "framework",
    "is_device_lost",
    "is_out_of_memory",
    "memory",
    "reason",
    "release",
    "reported",
    "reset_peak",
)
# If several are installed, the first one counts: the others come along with packages that can use them.
FRAMEWORKS = ("torch", "tensorflow", "jax")


class DeviceError(RuntimeError):
    """The GPU was asked for and cannot be used. The message says why and what to do."""


@dataclass(frozen=True)
class Memory:
    """Memory of a GPU in bytes; `used` and `peak` are this process's own."""

    used: int
    free: int
    total: int
    peak: int


def framework() -> str:
    """Return the name of one of the frameworks, or "plain" for NumPy and CuPy."""
    found = imported() or [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    return found[0] if found else "plain"


def imported() -> tuple[str, ...]:
    """Return the frameworks that this process has imported."""
    return tuple(name for name in FRAMEWORKS if name in sys.modules)


def _module() -> Any:
    """Return the module with_NAME of the framework, that of CuPy for "plain"."""
    name = framework()
    return importlib.import_module(f".with_{'cupy' if name == 'plain' else name}", __name__)


def choose(requested: str = "auto") -> str:
    """Return "cuda" or "cpu": the request, or what "auto" finds.

    Raises DeviceError when "cuda" is requested and cannot be used, ValueError for any other request.
    """
    if requested not in ("auto", "cuda", "cpu"):
        raise ValueError(f"device {requested!r} is unknown: take auto, cuda or cpu")
    missing = "" if requested == "cpu" else _module().why_no_gpu()
    if requested == "cuda" and missing:
        raise DeviceError(
            f"no GPU can be used: {missing}; 'gpu-smoke --require gpu' in the image (from outside: "
            "'RUN_IN=docker scripts/smoke --require gpu') shows the cause and the fix"
        )
    return "cpu" if requested == "cpu" or missing else "cuda"


def reason(device: str) -> str:
    """Say in a few words why `device` ("cuda" or "cpu") is used."""
    if device != "cpu":
        return f"{device}: {describe(device)['name']}"
    missing = _module().why_no_gpu()
    return f"cpu: {missing}" if missing else "cpu: requested"


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return {"device": "cpu", "name": platform.processor() or platform.machine(), "driver": "", "cuda": ""}
    name, cuda = _module().name_and_cuda()
    return {"device": device, "name": name, "driver": _driver_version(), "cuda": cuda}


def _driver_version() -> str:
    """Version of the NVIDIA kernel module, "" where there is none (WSL keeps it on the Windows side)."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else ""


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    return None if device == "cpu" else Memory(*_module().memory())


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew. JAX cannot: it knows the peak since the start alone."""
    _ask("reset_peak", device)


def release(device: str) -> None:
    """Give memory that the framework keeps in reserve back to the GPU. TensorFlow and JAX keep it until the end."""
    _ask("release", device)


def _ask(name: str, device: str) -> None:
    """Call a function of the framework's module, if it has it."""
    function = None if device == "cpu" else getattr(_module(), name, None)
    if function:
        function()
