"""The device (CuPy on the GPU, NumPy on the CPU)."""

import re
from typing import Any

from .common import Memory, cpu, driver_version, said

_OUT_OF_MEMORY = re.compile(r"cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|out of memory", re.IGNORECASE)
_DEVICE_LOST = re.compile(r"cudaError(IllegalAddress|LaunchFailure|ECC|MisalignedAddress|Assert|HardwareStack|Unknown)")


def _cupy() -> Any:
    """Return CuPy, None where it is not installed or cannot be loaded."""
    try:
        import cupy
    except ImportError:
        return None
    return cupy


def why_no_gpu() -> str:
    cupy = _cupy()
    if cupy is None:
        return "CuPy is not installed (scripts/setup installs it where it sees an NVIDIA GPU)"
    if not cupy.cuda.is_available():
        return "CuPy sees no NVIDIA GPU"
    return ""


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return cpu()
    runtime = _cupy().cuda.runtime
    version = runtime.runtimeGetVersion()
    return {
        "device": "cuda",
        "name": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": driver_version(),
        "cuda": f"{version // 1000}.{version % 1000 // 10}",
    }


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    if device == "cpu":
        return None
    cupy = _cupy()
    free, total = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    # The pool keeps what it once took, so that its size is the highest need since `reset_peak`.
    return Memory(pool.used_bytes(), free, total, pool.total_bytes())


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew."""
    release(device)


def release(device: str) -> None:
    """Give memory that the framework keeps in reserve back to the GPU."""
    if device == "cuda":
        _cupy().get_default_memory_pool().free_all_blocks()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    named = type(error).__name__ == "OutOfMemoryError"
    return named or isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(said(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    return bool(_DEVICE_LOST.search(said(error)))
