"""PyTorch's own profiler around some work."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

COPIES = ("Memcpy", "aten::to", "aten::_to_copy", "aten::copy_")


def traced(work: Callable[[], object], device: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work; return seconds by kind ("copy", "compute") and a table of the operators that took most.

    The trace goes to trace.json in the folder, for ui.perfetto.dev or chrome://tracing. On a GPU the seconds are its
    own; on the CPU they are those inside of operators, and what is missing to the whole is Python.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=activities) as profiler:
        work()
        if device == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = profiler.key_averages()
    own = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    copy = sum(getattr(event, own) for event in events if event.key.startswith(COPIES))
    total = sum(getattr(event, own) for event in events)
    table = events.table(sort_by=own, row_limit=8, max_name_column_width=40)
    return {"copy": copy / 1e6, "compute": (total - copy) / 1e6}, table
