"""As many threads as there are processor cores for this process, in a container and beside others of its kind.

NumPy, PyTorch and TensorFlow start a thread for each core of the machine and do not see a container's limit. Threads
that share fewer cores wait for each other in the midst of every computation.
"""

import math
import os
from pathlib import Path

# OpenBLAS, MKL and OpenMP, so NumPy and PyTorch, read the first one; TensorFlow has its own.
_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
# What the environment says before anything is set here counts more.
_ASKED_FOR = {name for name in _VARIABLES if name in os.environ}


def usable_cores(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores that this process may use, at least 1; a container's limit of 1.5 counts as 2.

    groups: where a container sees its own control group, of version 2 or 1; those above it do not count.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    names = ["cpu.max"] if (groups / "cpu.max").exists() else ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]
    try:
        quota, period = map(int, " ".join((groups / name).read_text() for name in names).split())
    except (OSError, ValueError):  # no container, or "max" for no limit
        return cores
    return max(1, min(cores, math.ceil(quota / period))) if quota > 0 else cores  # version 1 says -1 for no limit


def thread_settings(processes: int = 1) -> dict[str, str]:
    """Return environment variables that share the usable cores between processes; none where nothing is short."""
    cores = usable_cores()
    if processes == 1 and cores == os.cpu_count():
        return {}
    return {name: str(max(1, cores // processes)) for name in _VARIABLES if name not in _ASKED_FOR}


def fit_threads() -> None:
    """Start no more threads than there are usable cores. To be called before NumPy or a framework is imported."""
    os.environ.update(thread_settings())
