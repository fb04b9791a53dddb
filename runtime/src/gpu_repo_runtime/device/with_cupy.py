"""The device (CuPy on the GPU, NumPy on the CPU)."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .common import Memory, cpu, driver_version, said

_OUT_OF_MEMORY = re.compile(r"cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|out of memory", re.IGNORECASE)
_COPIES = ("asarray", "asnumpy", "get")
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


def why_no_mps() -> str:
    return "NumPy does not compute there, PyTorch does"


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


def places(part: Any) -> set[str]:
    """Return nothing: an array of NumPy may well belong on the CPU."""
    return set()


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under Python's own profiler: NumPy has none, and CuPy's calls show up in it too.

    The profile goes to profile.pstats in the folder. A copy is what CuPy's asarray, asnumpy and get take; a GPU works
    on while Python goes ahead, so that waiting for its results counts as a copy too.
    """
    import cProfile  # nothing else needs the two
    import pstats

    profiler = cProfile.Profile()
    profiler.runcall(work)
    profiler.dump_stats(folder / "profile.pstats")
    text = io.StringIO()
    statistics = pstats.Stats(profiler, stream=text).sort_stats("tottime")
    statistics.print_stats(8)
    rows = statistics.stats.items()  # type: ignore[attr-defined]  # (file, line, function) -> (..., own, with callees, ...)
    copy = sum(values[3] for (file, _, name), values in rows if "cupy" in file and name in _COPIES)
    table = "\n".join(line for line in text.getvalue().splitlines() if line.strip())
    return {"copy": copy, "compute": statistics.total_tt - copy}, table  # type: ignore[attr-defined]
