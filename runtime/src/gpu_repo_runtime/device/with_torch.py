"""The device (PyTorch)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .common import Memory, cpu, driver_version, said

# What PyTorch and the CUDA libraries say when memory runs out, beside torch.OutOfMemoryError.
_OUT_OF_MEMORY = re.compile(
    r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|MPS backend out of memory"
    r"|not enough memory"
)
# torch.AcceleratorError came with torch 2.8; older builds raise a RuntimeError with this text.
_DEVICE_LOST = getattr(torch, "AcceleratorError", ())
_COPIES = ("Memcpy", "aten::to", "aten::_to_copy", "aten::copy_")


def why_no_gpu() -> str:
    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    # is_available() alone can say yes while CUDA_VISIBLE_DEVICES hides every GPU.
    if not torch.cuda.is_available() or torch.cuda.device_count() == 0:
        return "torch sees no NVIDIA GPU"
    return ""


def why_no_mps() -> str:
    if not torch.backends.mps.is_built():
        return "this build of torch has no Metal"
    if not torch.backends.mps.is_available():
        return "torch sees no GPU of Apple"
    return ""


def describe(device: str) -> dict[str, str]:
    """Return "device", "name", "driver" and "cuda" (both "" on the CPU)."""
    if device == "cpu":
        return cpu()
    if device == "mps":
        return {"device": "mps", "name": "Apple GPU", "driver": "", "cuda": ""}
    return {
        "device": "cuda",
        "name": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "cuda": torch.version.cuda or "",
    }


def memory(device: str) -> Memory | None:
    """Return the memory of the GPU in bytes, None on the CPU."""
    if device == "cpu":
        return None
    if device == "mps":  # it knows no peak: what the allocator keeps is the highest need since `reset_peak`
        total, held = torch.mps.recommended_max_memory(), torch.mps.driver_allocated_memory()
        return Memory(torch.mps.current_allocated_memory(), max(0, total - held), total, held)
    free, total = torch.cuda.mem_get_info()
    return Memory(torch.cuda.memory_allocated(), free, total, torch.cuda.max_memory_allocated())


def reset_peak(device: str) -> None:
    """Start measuring `Memory.peak` anew."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    elif device == "mps":
        torch.mps.synchronize()
        torch.mps.empty_cache()


def release(device: str) -> None:
    """Give memory that the framework keeps in reserve back to the GPU."""
    if device == "cuda":
        torch.cuda.empty_cache()
    elif device == "mps":
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a smaller batch may help."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or bool(_OUT_OF_MEMORY.search(said(error)))


def is_device_lost(error: BaseException) -> bool:
    """Tell whether the GPU is gone for this process, so that only a new process helps."""
    lost = isinstance(error, _DEVICE_LOST) or (isinstance(error, RuntimeError) and "CUDA error:" in said(error))
    return lost and not is_out_of_memory(error)


def places(part: Any) -> set[str]:
    """Return the kinds of devices that a network's or a tensor's numbers are on, none for anything else."""
    if isinstance(part, torch.nn.Module):
        return {tensor.device.type for tensor in (*part.parameters(), *part.buffers())}
    return {part.device.type} if isinstance(part, torch.Tensor) else set()


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under PyTorch's own profiler; the table is of the operators that took most.

    The trace goes to trace.json in the folder, for ui.perfetto.dev or chrome://tracing. On a GPU the seconds are its
    own; on the CPU they are those inside of operators, and what is missing to the whole is Python.
    """
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=activities) as profiler:
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        elif device == "mps":
            torch.mps.synchronize()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = profiler.key_averages()
    own = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    copy = sum(getattr(event, own) for event in events if event.key.startswith(_COPIES))
    total = sum(getattr(event, own) for event in events)
    table = events.table(sort_by=own, row_limit=8, max_name_column_width=40)
    return {"copy": copy / 1e6, "compute": (total - copy) / 1e6}, table
