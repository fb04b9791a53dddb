"""Measure gpu-smoke in an image of the family on a machine without a GPU: time, first line, memory.

    docker run --rm --network=none --volume "$PWD:/work:ro" --workdir /work --env PYTHONPATH=/work \\
        registry.example.com/ml/torch-cu13:2026.11 python -m benchmarks.gpu_smoke.measure > result.json

and move it to benchmarks/gpu_smoke.
Times are in seconds, memory in MiB; wall time is that of the fastest run, for other programs may use the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import Figures, as_json, machine, medians

RUNS = 9
TARGETS = {"walk_cpu_s": 0.5, "walk_wall_s": 0.5, "first_line_cpu_s": 0.2, "program_mib": 60}


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_run(command: list[str], environment: Mapping[str, str] | None = None) -> Figures:
    """Run once; return seconds to the first line, to the end, of processor time, and the program's own peak in MiB."""
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        first_line, first_cpu = time.monotonic() - began, cpu_seconds(process.pid)
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or not first:
        raise SystemExit(f"gpu-smoke gave {process.returncode}: run it by hand to see why")
    return {"first_line_s": first_line, "total_s": time.monotonic() - began, "program_mib": used.ru_maxrss / 1024,
            "first_line_cpu_s": first_cpu, "cpu_s": used.ru_utime + used.ru_stime}  # fmt: skip


def main() -> None:
    """Print the measurement as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["gpu-smoke", "--json", str(report)]
        one_run(command)  # the files are read for the first time
        runs = [one_run(command) for _ in range(RUNS)]
        image = json.loads(report.read_text())["image"]
    median = medians(runs)
    figures = {
        "walk_cpu_s": median["cpu_s"],
        "walk_wall_s": min(run["total_s"] for run in runs),
        "first_line_cpu_s": median["first_line_cpu_s"],
        "program_mib": max(run["program_mib"] for run in runs),
    }
    result = {
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "image": image["name"] if image else "Debian and Python",
        "runs": RUNS,
        "figures": {name: round(value, 3) for name, value in figures.items()},
        "targets": TARGETS,
    }
    print(as_json(result), end="")


if __name__ == "__main__":
    main()
