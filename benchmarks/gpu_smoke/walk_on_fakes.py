"""Measure what a walk costs besides the GPU: processor time and processes, on the tests' fakes of a driver.

    python -m benchmarks.gpu_smoke.walk_on_fakes > benchmarks/gpu_smoke/walk_on_fakes.json

It needs gcc. What an image's libraries and a GPU take comes on top; calls and processes are those of a walk on a GPU.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.result_files import as_json, machine
from tests.gpu_smoke.smoke_machine import Machine, compile_fakes

RUNS = 15
# Counts the processes that the walk starts, and says so on its last line of standard error.
COUNTING = """
import os, sys
fork, started = os.fork, []
os.fork = lambda: started.append(1) or fork()
sys.argv = ["gpu-smoke", "--require", "gpu", *sys.argv[1:]]
from gpu_smoke.cli import main
code = main()
print(len(started), file=sys.stderr)
sys.exit(code)
"""


def walked(options: list[str], env: dict[str, str]) -> tuple[float, int]:
    """Walk once; return seconds of processor time of all its processes, and how many it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *options], env=env, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stderr.splitlines()[-1])


def main() -> None:
    """Print the measurement as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        made = Machine(Path(folder), compile_fakes(Path(folder))).good()
        env = made.environment()
        found = {}
        for framework in ("plain", "torch"):
            runs = [walked(["--framework", framework], env) for _ in range(RUNS)]
            found[framework] = {
                "processor_s": round(statistics.median(seconds for seconds, _ in runs), 3),
                "processes": runs[0][1],
            }
    told = {"measured": datetime.now(UTC).date().isoformat(), "machine": machine(), "runs": RUNS, "walks": found}
    print(as_json(told))


if __name__ == "__main__":
    main()
