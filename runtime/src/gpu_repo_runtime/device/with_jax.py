"""The device (JAX)."""

import os
import re
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jax

from .common import Memory, cpu, driver_version, said

_OUT_OF_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|[Oo]ut of memory")
_DEVICE_LOST = re.compile(r"CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|ECC|MISALIGNED|ASSERT|HARDWARE|UNKNOWN)")

# Take GPU memory as it is needed: JAX's own way is to take three quarters of it when it first computes.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# It asks CUPTI 13 for its version, which ends the process where there is no driver; the image's versions are checked.
os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")


def why_no_gpu() -> str:
    if not any(plugin.name.startswith("xla_cuda") for plugin in entry_points(group="jax_plugins")):
        return "the CUDA plugin of JAX is not installed (scripts/setup installs it where it sees an NVIDIA GPU)"
    try:
        jax.devices("cuda")
    except RuntimeError:
        return "JAX sees no NVIDIA GPU"
    return ""


def why_no_mps() -> str:
    return "JAX does not compute there, PyTorch does"


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return cpu()
    gpu = jax.devices("cuda")[0]
    version = re.search(r"cuda (\d+)(\d\d)\d\b", gpu.client.platform_version)
    return {
        "device": "cuda",
        "name": gpu.device_kind,
        "driver": driver_version(),
        "cuda": f"{int(version[1])}.{int(version[2])}" if version else "",
    }


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    if device == "cpu":
        return None
    # Free and total are of what JAX may take, a part of the GPU; nothing is told where it leaves memory to the driver.
    known = jax.devices("cuda")[0].memory_stats() or {}
    used, total = known.get("bytes_in_use", 0), known.get("bytes_limit", 0)
    return Memory(used, max(0, total - used), total, known.get("peak_bytes_in_use", used))


def reset_peak(device: str) -> None:
    """Do nothing: JAX knows the highest memory since the start alone."""


def release(device: str) -> None:
    """Do nothing: JAX keeps the memory that it has taken until the process ends."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(said(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    return isinstance(error, jax.errors.JaxRuntimeError) and bool(_DEVICE_LOST.search(said(error)))


def places(part: Any) -> set[str]:
    """Return the kinds of devices that an array is on, none for anything else."""
    if not isinstance(part, jax.Array):
        return set()
    return {"cpu" if device.platform == "cpu" else "gpu" for device in part.devices()}


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under JAX's own profiler; "compute" holds its copies.

    The trace is for TensorBoard with its profile plugin, or for XProf, which tell copies from kernels.
    """
    start = time.perf_counter()
    with jax.profiler.trace(str(folder)):
        work()
        seconds = time.perf_counter() - start
    return {"compute": seconds}, f"Operators and copies: xprof --logdir {folder} (from the package xprof)"
