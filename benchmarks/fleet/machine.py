"""The machine of a measurement, without its name."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def machine() -> dict[str, object]:
    """Describe the machine without naming it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    git = subprocess.run(["git", "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    versions = {"python": platform.python_version(), "copier": version("copier"), "git": git}
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(memory), "system": platform.system()} | versions
