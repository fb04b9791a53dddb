"""The device (CuPy on the GPU, NumPy on the CPU)."""

import importlib
from pathlib import Path
from typing import Any


def _cupy() -> Any:
    """Return CuPy, None where it is not installed or cannot be loaded."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        return None


def why_no_gpu() -> str:
    cupy = _cupy()
    if cupy is None and not (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()):
        return "this machine has no NVIDIA GPU"
    if cupy is None:
        return "CuPy is not installed (scripts/setup installs it where it sees an NVIDIA GPU)"
    return "" if cupy.cuda.is_available() else "CuPy sees no NVIDIA GPU"


def name_and_cuda() -> tuple[str, str]:
    """Return the name of the GPU and the version of CUDA."""
    runtime = _cupy().cuda.runtime
    version = runtime.runtimeGetVersion()
    return runtime.getDeviceProperties(0)["name"].decode(), f"{version // 1000}.{version % 1000 // 10}"


def memory() -> tuple[int, int, int, int]:
    """Return the fields of Memory, in bytes."""
    cupy = _cupy()
    free, total = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    # The pool keeps what it once took, so that its size is the highest need since `reset_peak`.
    return pool.used_bytes(), free, total, pool.total_bytes()


def reset_peak() -> None:
    release()


def release() -> None:
    _cupy().get_default_memory_pool().free_all_blocks()
