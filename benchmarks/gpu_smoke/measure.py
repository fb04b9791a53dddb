"""Measure gpu-smoke: time in image mode, time to the first line, memory of the program itself.

    python -m benchmarks.gpu_smoke.measure --cuda 13.2 > benchmarks/gpu_smoke/result.json

Run it inside an image of the family (--cuda is the image's CUDA), or name folders of CUDA libraries with --libraries.
Times are in seconds, memory in MiB. The result names the machine's kind, never its name or a path. Compile the package
first (python -m compileall base-images/gpu_smoke), as the images do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.result_files import as_json, machine

PACKAGE_ROOT = Path(__file__).resolve().parents[2] / "base-images"
TARGETS = {"image_mode_s": 1.5, "first_line_s": 0.2, "program_mib": 60}


def environment(libraries: list[Path], row: Path) -> dict[str, str]:
    """Return a small environment with the libraries on the loader's path."""
    return {
        "PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(PACKAGE_ROOT), "GPU_SMOKE_IMAGE_JSON": str(row),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
    }  # fmt: skip


def one_run(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Run once; return seconds to the first line and to the end, and the peak of the program's own memory in MiB."""
    began = time.monotonic()
    peak = 0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        first_line = time.monotonic() - began
        while process.poll() is None:
            peak = max(peak, high_water(process.pid))
            time.sleep(0.001)
        total = time.monotonic() - began
    if process.returncode != 0 or not first:
        raise SystemExit(f"gpu-smoke gave {process.returncode}: run it by hand to see why")
    return {"first_line_s": first_line, "total_s": total, "program_mib": peak / 1024}


def high_water(pid: int) -> int:
    """Return the peak resident memory of one process in KiB, without its children; 0 when it has just ended."""
    try:
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match.group(1)) if match else 0


def main() -> None:
    """Print the measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", nargs="*", type=Path, default=[], help="folders of an image's CUDA libraries")
    parser.add_argument("--cuda", default="", help="the image's CUDA version: every library is then required")
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row, report = Path(folder, "image.json"), Path(folder, "report.json")
        if arguments.cuda:
            row.write_text(json.dumps({"name": "benchmark", "framework": "plain", "cuda": arguments.cuda}))
        command = [sys.executable, "-m", "gpu_smoke", "--mode", "image", "--framework", "plain", "--json", str(report)]
        env = environment(arguments.libraries, row)
        cold = one_run(command, env)
        runs = [one_run(command, env) for _ in range(arguments.runs)]
        layers = json.loads(report.read_text())["layers"]
    figures = {
        "image_mode_s": statistics.median(run["total_s"] for run in runs),
        "image_mode_first_run_s": cold["total_s"],
        "first_line_s": statistics.median(run["first_line_s"] for run in runs),
        "program_mib": max(run["program_mib"] for run in runs),
    }
    result = {
        "measured": datetime.now(UTC).date().isoformat(),
        "machine": machine(gpu=None),
        "runs": arguments.runs,
        "libraries": {layer["name"]: layer["version"] for layer in layers if layer["version"] and layer["path"]},
        "figures": {name: round(value, 3) for name, value in figures.items()},
        "targets": TARGETS,
        "met": {name: figures[name] < target for name, target in TARGETS.items()},
        "not_measured": "the walk on a GPU (under 3 s): no GPU was at hand",
    }
    print(as_json(result))


if __name__ == "__main__":
    main()
