"""What a measurement ran on."""

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path


def described(packages: Sequence[str]) -> dict[str, object]:
    """Return the machine and the versions of packages, as result files have them."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if "model name" in line), "unknown")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }
