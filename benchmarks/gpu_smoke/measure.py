"""Measure gpu-smoke in an image of the family on a machine without a GPU: time, first line, memory.

    docker run --rm --network=none --volume "$PWD:/work:ro" --workdir /work --env PYTHONPATH=/work \\
        registry.example.com/ml/torch-cu13:2026.11 python -m benchmarks.gpu_smoke.measure > result.json

and move it to benchmarks/gpu_smoke.
Times are in seconds, memory in MiB; wall time is that of the fastest run, for other programs may use the machine.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.result_files import as_json, machine

PACKAGE_ROOT = Path(__file__).resolve().parents[2] / "base-images"
RUNS = 9
TARGETS = {"walk_cpu_s": 0.5, "walk_wall_s": 0.5, "first_line_cpu_s": 0.2, "program_mib": 60}


def processor_time() -> float:
    """Return the processor time of all processes that this one started and that ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_run(command: list[str], env: dict[str, str] | None = None) -> dict[str, float]:
    """Run once; return seconds to the first line, to the end, of processor time, and the program's own peak in MiB."""
    began, used_before = time.monotonic(), processor_time()
    peak = 0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        first_line, first_cpu = time.monotonic() - began, used_by(process.pid)
        while process.poll() is None:
            peak = max(peak, high_water(process.pid))
            time.sleep(0.001)
        total = time.monotonic() - began
    if process.returncode != 0 or not first:
        raise SystemExit(f"gpu-smoke gave {process.returncode}: run it by hand to see why")
    return {"first_line_s": first_line, "total_s": total, "program_mib": peak / 1024,
            "first_line_cpu_s": first_cpu, "cpu_s": processor_time() - used_before}  # fmt: skip


def used_by(pid: int) -> float:
    """Return the processor time of a running process in seconds, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def high_water(pid: int) -> int:
    """Return the peak resident memory of one process in KiB, without its children; 0 when it has just ended."""
    try:
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match.group(1)) if match else 0


def main() -> None:
    """Print the measurement as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["gpu-smoke", "--json", str(report)]
        one_run(command)  # the files are read for the first time
        runs = [one_run(command) for _ in range(RUNS)]
        told = json.loads(report.read_text())
    figures = {
        "walk_cpu_s": statistics.median(run["cpu_s"] for run in runs),
        "walk_wall_s": min(run["total_s"] for run in runs),
        "first_line_cpu_s": statistics.median(run["first_line_cpu_s"] for run in runs),
        "program_mib": max(run["program_mib"] for run in runs),
    }
    result = {
        "measured": datetime.now(UTC).date().isoformat(),
        "machine": machine(gpu=None),
        "image": told["image"]["name"] if told["image"] else "Debian and Python",
        "runs": RUNS,
        "figures": {name: round(value, 3) for name, value in figures.items()},
        "targets": TARGETS,
        "met": {name: figures[name] <= target for name, target in TARGETS.items()},
    }
    print(as_json(result))


if __name__ == "__main__":
    main()
