"""Rate and memory of a model by the size of its batches, and where the time goes: PyTorch's profiler, else Python's."""

import cProfile
import io
import pstats
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import device

_COPIES = ("Memcpy", "aten::to", "aten::_to_copy", "aten::copy_")  # of PyTorch
_CUPY_COPIES = ("asarray", "asnumpy", "get")  # they wait for the GPU too
_UNPROVEN = "measured without an NVIDIA GPU: run it on one to see its speed and memory"


@dataclass(frozen=True)
class Measured:
    """Inputs per second of a batch size in the model, and the highest memory in bytes."""

    size: int
    rate: float
    memory: int


def peak(chosen: str) -> int:
    """Return the highest memory in bytes: of the GPU since `device.reset_peak`, else of the process since its start."""
    memory = device.memory(chosen)
    kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return memory.peak if memory else kept * (1 if sys.platform == "darwin" else 1024)


def report(measured: Sequence[Measured], chosen: str, seconds: dict[str, float]) -> dict[str, Any]:
    """Return what was measured, for a JSON file."""
    return {"device": chosen, "batches": [asdict(one) for one in measured], "seconds": seconds}


def table(measured: Sequence[Measured], chosen: str) -> str:
    """Return rate and memory of each batch size as text."""
    lines = [f"{one.size:10} {one.rate:9,.0f} {one.memory / 2**20:10,.0f} MiB" for one in measured]
    return "\n".join(["batch size  inputs/s    peak memory", *lines, *([] if chosen == "cuda" else [_UNPROVEN])])


def traced(work: Callable[[], object], chosen: str, folder: Path) -> tuple[dict[str, float], str]:
    """Do the work under a profiler; return the seconds of "copy" and "compute", and a table of what took most.

    PyTorch's trace goes to trace.json in the folder, for ui.perfetto.dev or chrome://tracing. Python's profile goes to
    profile.pstats. TensorFlow and JAX have profilers of their own, whose traces need a viewer.
    """
    return _with_torch(work, chosen, folder) if device.framework() == "torch" else _with_python(work, folder)


def _with_torch(work: Callable[[], object], chosen: str, folder: Path) -> tuple[dict[str, float], str]:
    """On a GPU the seconds are its own; on the CPU they are those inside of operators, and the rest is Python."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if chosen == "cuda" else [])]
    with profile(activities=activities) as profiler:
        work()
        if chosen == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = profiler.key_averages()
    own = "self_device_time_total" if chosen == "cuda" else "self_cpu_time_total"
    copy = sum(getattr(event, own) for event in events if event.key.startswith(_COPIES))
    total = sum(getattr(event, own) for event in events)
    table = events.table(sort_by=own, row_limit=8, max_name_column_width=40)
    return {"copy": copy / 1e6, "compute": (total - copy) / 1e6}, table


def _with_python(work: Callable[[], object], folder: Path) -> tuple[dict[str, float], str]:
    profiler = cProfile.Profile()
    profiler.runcall(work)
    profiler.dump_stats(folder / "profile.pstats")
    text = io.StringIO()
    statistics = pstats.Stats(profiler, stream=text).sort_stats("tottime")
    statistics.print_stats(8)
    found = statistics.get_stats_profile()
    calls = ((name, found.func_profiles[name]) for name in _CUPY_COPIES if name in found.func_profiles)
    copy = sum(call.cumtime for _, call in calls if "cupy" in call.file_name)
    table = "\n".join(line for line in text.getvalue().splitlines() if line.strip())
    return {"copy": copy, "compute": found.total_tt - copy}, table
