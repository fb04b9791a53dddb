"""Measure what the shape of the input costs the batch job; write benchmarks/results/batch-inputs.json.

usage: python -m benchmarks.batch.inputs [--rounds N] [--only WORD]

The same rows come as one file and as many small ones, and as one row group and as ten; some rows are large. The model
is the plain starting model. Processor time counts, of all processes of the command; memory is the highest resident
memory of the one that works. The least of the rounds counts: whatever disturbs one adds to it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import string
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from copier import run_copy

from benchmarks.result_files import machine, write_result

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "benchmarks" / "results" / "batch-inputs.json"
FILES, ROWS = 2000, 50
MANY = 1_000_000
LARGE, LARGE_BYTES = 3000, 150_000


def make_inputs(folder: Path) -> dict[str, Path]:
    """Write the inputs; return their paths by name."""
    large = folder / "large.parquet"
    letters = np.frombuffer((string.ascii_letters + " ").encode(), np.uint8)
    chance = np.random.default_rng(0)
    long = [letters[chance.integers(0, len(letters), LARGE_BYTES)].tobytes().decode() for _ in range(LARGE)]
    pq.write_table(pa.table({"text": long}), large)
    texts = [f"this is row {number} of some text to be read, in words that do not matter" for number in range(MANY)]
    found = {f"{LARGE:,} rows of {LARGE_BYTES:,} bytes": large}
    for rows, group in ((100_000, 100_000), (MANY, 100_000), (MANY, MANY)):
        path = found[f"{rows:,} rows, row groups of {group:,}"] = folder / f"{rows}-{group}.parquet"
        pq.write_table(pa.table({"text": texts[:rows]}), path, row_group_size=group)
    for kind in ("parquet", "jsonl"):
        many = found[f"{FILES:,} files, {kind}"] = folder / kind
        one = found[f"one file, {kind}"] = folder / f"one.{kind}"
        many.mkdir()
        write(one, texts[: FILES * ROWS])
        for number in range(FILES):
            write(many / f"{number:05d}.{kind}", texts[number * ROWS : (number + 1) * ROWS])
    return found


def write(path: Path, texts: list[str]) -> None:
    """Write texts as the name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path)
    else:
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def run(source: Path, package: Path, output: Path) -> dict[str, float]:
    """Run the job once; return its processor time and highest memory."""
    paths = f"{package / 'src'}{os.pathsep}{ROOT / 'runtime' / 'src'}"
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", "bench", "run"]
    command += ["--device", "cpu", "--input", source, "--output", output]
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}
    before, highest = resource.getrusage(resource.RUSAGE_CHILDREN), 0
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            highest = max(highest, memory(process.pid))
            time.sleep(0.01)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_seconds": round(seconds, 2), "memory_mib": round(highest / 1024)}


def memory(process: int) -> int:
    """Return the highest memory so far, in KiB, of the process that works below the one that was started."""
    highest = 0
    with suppress(OSError):
        for own in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{own}/status").read_text())
            highest = max(highest, int(found[1]) if found else 0)
    return highest


def main() -> None:
    """Measure all inputs in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="WORD", help="inputs with it in their names; the others stay")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        answers = {"project_name": "bench", "project_type": "batch", "framework": "plain"}
        run_copy(str(ROOT), folder / "child", data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        inputs = {name: path for name, path in make_inputs(folder).items() if options.only in name}
        for number in range(options.rounds):
            for place, (name, source) in enumerate(inputs.items()):
                measured = run(source, folder / "child", folder / f"out-{number}-{place}")
                before = found.get(name, measured)
                found[name] = {key: min(value, before[key]) for key, value in measured.items()}
                print(name, measured, flush=True)
    before = json.loads(TARGET.read_text())["inputs"] if options.only else {}
    result = {"inputs": before | found, "machine": machine(("pyarrow", "numpy"))}
    write_result(TARGET, result)


if __name__ == "__main__":
    main()
