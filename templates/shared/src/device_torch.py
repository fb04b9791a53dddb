"""Which device to compute on, and what is known about it (PyTorch)."""

import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch

# What PyTorch and the CUDA libraries say when memory runs out, beside torch.OutOfMemoryError.
_OUT_OF_MEMORY = re.compile(
    r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|not enough memory"
)
# torch.AcceleratorError came with torch 2.8; older builds raise a RuntimeError with this text.
_DEVICE_LOST = getattr(torch, "AcceleratorError", ())


{% include "templates/shared/src/device_common.py" %}


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    # is_available() alone can say yes while CUDA_VISIBLE_DEVICES hides every GPU.
    if not torch.cuda.is_available() or torch.cuda.device_count() == 0:
        return "torch sees no NVIDIA GPU"
    return ""


{% include "templates/shared/src/device_cpu.py" %}


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return _cpu()
    return {
        "device": "cuda",
        "name": torch.cuda.get_device_name(),
        "driver": _driver_version(),
        "cuda": torch.version.cuda or "",
    }


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    if device == "cpu":
        return None
    free, total = torch.cuda.mem_get_info()
    return Memory(torch.cuda.memory_allocated(), free, total, torch.cuda.max_memory_allocated())


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def release(device: str) -> None:
    """Give memory that the framework keeps in reserve back to the GPU."""
    if device == "cuda":
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or bool(_OUT_OF_MEMORY.search(_said(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    lost = isinstance(error, _DEVICE_LOST) or (isinstance(error, RuntimeError) and "CUDA error:" in _said(error))
    return lost and not is_out_of_memory(error)
