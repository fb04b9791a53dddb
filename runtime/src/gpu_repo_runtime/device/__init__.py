"""Which device to compute on, and what is known about it.

Each framework has its own words for that, in a module with_NAME beside this one. The one that counts is the one that
the model's code imports: ask only after model.py was imported. Where it imports none before its ``load``, the one that
is installed counts.
"""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .common import DeviceError, Memory, said
from .origin import raised_by_project, with_causes

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
    "traced",
)
# Where several are there these count first: others come along with packages that can use them.
_FIRST = ("torch", "tensorflow")
_MODULES = {module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("with_")}
FRAMEWORKS = (*_FIRST, *sorted({name.removeprefix("with_") for name in _MODULES} - {*_FIRST, "cupy"}))
_LIBRARIES = frozenset({*FRAMEWORKS, "cupy", "cupy_backends", "jaxlib"})
_found: ModuleType | None = None


def framework() -> str:
    """Return the name of one of the frameworks, or "plain" for NumPy and CuPy."""
    found = imported() or [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    return found[0] if found else "plain"


def imported() -> tuple[str, ...]:
    """Return the frameworks that this process has imported."""
    return tuple(name for name in FRAMEWORKS if name in sys.modules)


def module_of(name: str) -> Any:
    """Return the module with_NAME of a framework, that of CuPy for "plain"."""
    return importlib.import_module(f".with_{'cupy' if name == 'plain' else name}", __name__)


def _framework() -> Any:
    global _found
    if _found is None:
        _found = module_of(framework())
    return _found


def choose(requested: str = "auto") -> str:
    """Return "cuda" or "cpu" for the request "auto", what was asked for with "cuda", "mps" (Apple's GPU) and "cpu".

    "auto" never takes Apple's GPU, which lacks some operations. Raises DeviceError when a GPU is asked for and cannot
    be used, ValueError for any other request.
    """
    if requested not in ("auto", "cuda", "mps", "cpu"):
        raise ValueError(f"device {requested!r} is unknown: take auto, cuda, mps or cpu")
    if requested == "mps":
        if missing := _framework().why_no_mps():
            raise DeviceError(f"Apple's GPU cannot be used: {missing}; DEVICE=cpu computes without it")
        return "mps"
    missing = "" if requested == "cpu" else _framework().why_no_gpu()
    if requested == "cuda" and missing:
        raise DeviceError(
            f"no GPU can be used: {missing}; 'gpu-smoke --require gpu' in the image (from outside: "
            "'RUN_IN=docker scripts/smoke --require gpu') tells the cause and the fix"
        )
    return "cpu" if requested == "cpu" or missing else "cuda"


def reason(device: str) -> str:
    """Say in a few words why `device` ("cuda", "mps" or "cpu") is used."""
    if device != "cpu":
        return f"{device}: {describe(device)['name']}"
    missing = _framework().why_no_gpu()
    apple = "" if _framework().why_no_mps() else "; DEVICE=mps takes Apple's GPU"
    return f"cpu: {missing}{apple}" if missing else "cpu: asked for"


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    about: dict[str, str] = _framework().describe(device)
    return about


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    found: Memory | None = _framework().memory(device)
    return found


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew."""
    _framework().reset_peak(device)


def release(device: str) -> None:
    """Give memory that the framework keeps in reserve back to the GPU."""
    _framework().release(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help.

    The words of what the project's own code raises are not believed; what it was raised from is.
    """
    short = _framework().is_out_of_memory
    return bool(short(error)) and any(short(one) and _is_known(one) for one in with_causes(error))


def _is_known(error: BaseException) -> bool:
    """Whether an error is what it says: not by its words alone, or not in the words of the project."""
    own = type(error).__module__.partition(".")[0]
    return isinstance(error, MemoryError) or own in _LIBRARIES or not raised_by_project(error)


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps.

    What the project's own code raises is not believed, as its words may be an input; what it was raised from is.
    """
    return any(_framework().is_device_lost(one) and not raised_by_project(one) for one in with_causes(error))


def reported(error: BaseException) -> str:
    """Return the words of an error that are a library's or the driver's own, "" where they may repeat an input."""
    return "" if raised_by_project(error) else said(error)


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under the framework's own profiler; return seconds by kind, and a table or where to find one.

    The kinds are "copy" and "compute", the latter alone where the profiler does not tell them apart; the trace goes to
    the folder.
    """
    told: tuple[dict[str, float], str] = _framework().traced(work, device, folder)
    return told
