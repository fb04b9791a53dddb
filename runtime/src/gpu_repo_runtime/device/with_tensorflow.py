"""The device (TensorFlow)."""

import contextlib
import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from .common import Memory, cpu, driver_version, said

_OUT_OF_MEMORY = re.compile(
    r"CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|out of memory"
)
_DEVICE_LOST = re.compile(r"CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|ECC|MISALIGNED|ASSERT|HARDWARE|UNKNOWN)")

# Take GPU memory as it is needed: TensorFlow's own way is to take all of it at once.
with contextlib.suppress(RuntimeError):  # the model has computed already, where it is imported: it is too late
    for _gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(_gpu, True)


def why_no_gpu() -> str:
    if not tf.test.is_built_with_cuda():
        return "this build of tensorflow has no CUDA"
    if not tf.config.list_physical_devices("GPU"):
        return "tensorflow sees no NVIDIA GPU"
    return ""


def why_no_mps() -> str:
    return "TensorFlow does not compute there, PyTorch does"


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return cpu()
    gpu = tf.config.list_physical_devices("GPU")[0]
    return {
        "device": "cuda",
        "name": tf.config.experimental.get_device_details(gpu).get("device_name", "NVIDIA GPU"),
        "driver": driver_version(),
        "cuda": tf.sysconfig.get_build_info().get("cuda_version", ""),
    }


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    if device == "cpu":
        return None
    info = tf.config.experimental.get_memory_info("GPU:0")
    # TensorFlow does not tell the size of the GPU; its context is current on this thread once it has computed.
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    if code:
        return Memory(info["current"], 0, 0, info["peak"])
    return Memory(info["current"], free.value, total.value, info["peak"])


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew."""
    if device == "cuda":
        tf.config.experimental.reset_memory_stats("GPU:0")


def release(device: str) -> None:
    """Do nothing: TensorFlow keeps the memory that it has taken until the process ends."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    full = tf.errors.ResourceExhaustedError | MemoryError
    return isinstance(error, full) or bool(_OUT_OF_MEMORY.search(said(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    return isinstance(error, tf.errors.OpError) and bool(_DEVICE_LOST.search(said(error)))


def places(part: Any) -> set[str]:
    """Return the kinds of devices that a module's variables are on, none for anything else."""
    if not isinstance(part, tf.Module):
        return set()
    return {"cpu" if "CPU" in str(variable.device) else "gpu" for variable in part.variables}


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under TensorFlow's own profiler; "compute" holds its copies.

    The trace is for TensorBoard with its profile plugin, which alone tells copies from kernels.
    """
    tf.profiler.experimental.start(str(folder))
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        tf.profiler.experimental.stop()
    hint = f"Operators and copies: tensorboard --logdir {folder} (needs tensorboard-plugin-profile)"
    return {"compute": seconds}, hint
