"""Compare the batch job of this checkout with that of a release; write benchmarks/results/batch-versions.json.

usage: python -m benchmarks.batch.versions RELEASE [--rounds N]   (RELEASE: a tag or commit here, as 0.2.3)

Both run one after the other in each round, and begin in turn. Processor time counts, of all processes of the command,
less that of a run without rows, which is told beside it: the clock says little where other programs share the machine.
Nothing but the job's own packages is needed: the models are the plain starting model, and a stand-in for an encoder
whose time is that of multiplying matrices.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from copier import run_copy

from benchmarks.result_files import machine, write_result
from benchmarks.texts import even, uneven

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "benchmarks" / "results" / "batch-versions.json"
HASHED_WORDS = "604ae51"  # the last commit at which children start with the model that 0.2.3 starts with
ENCODER = '''"""Stands for an encoder: a matrix is multiplied as often as the padded batch has tokens."""

import numpy as np


class Model:
    examples = ("one", "two words")
    tolerance = 1e-5

    def load(self, device: str) -> None:
        chance = np.random.default_rng(0)
        self.table = chance.standard_normal((1024, 128)).astype(np.float32)
        self.weights = [chance.standard_normal((128, 128)).astype(np.float32) / 12 for _ in range(6)]

    def predict(self, batch: list[str]) -> list[dict]:
        longest = max(len(text.split()) for text in batch) or 1
        tokens = np.zeros((len(batch), longest), np.int64)
        for row, text in enumerate(batch):
            words = [len(word) * 31 % 1024 for word in text.split()]
            tokens[row, : len(words)] = words
        hidden = self.table[tokens]
        for weight in self.weights:
            hidden = np.tanh(hidden @ weight)
        return [{"embedding": vector.tolist()} for vector in hidden.mean(axis=1)]
'''


def child(folder: Path, commit: str, encoder: bool) -> str:
    """Render a batch repository of a commit; return what PYTHONPATH is for it."""
    answers = {"project_name": "bench", "project_type": "batch", "framework": "plain"}
    run_copy(str(ROOT), folder, data=answers, defaults=True, quiet=True, vcs_ref=commit)
    model = folder / "src" / "bench" / "model.py"
    if encoder:
        model.write_text(ENCODER)
    elif (folder / "weights.toml").exists():  # of another starting model than releases before had: theirs is measured
        run_copy(str(ROOT), folder / "earlier", data=answers, defaults=True, quiet=True, vcs_ref=HASHED_WORDS)
        model.write_text((folder / "earlier" / "src" / "bench" / "model.py").read_text())
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, "."], check=True, capture_output=True).stdout
    tree = folder / "parent"
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    return f"{folder / 'src'}{os.pathsep}{tree / 'runtime' / 'src'}"


def processor_seconds(path: str, source: Path, output: Path) -> float:
    """Run the job once; return the processor time of all its processes."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", "bench", "run"]
    command += ["--device", "cpu", "--input", source, "--output", output]
    subprocess.run(command, env=os.environ | one_thread | {"PYTHONPATH": path}, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(folder: Path, commits: dict[str, str], texts: list[str], encoder: bool, rounds: int) -> dict[str, object]:
    """Return rows for a second of processor time of each version, and the ratio of the new to the old one."""
    source = folder / "input.parquet"
    pq.write_table(pa.table({"text": texts}), source, row_group_size=50_000)
    paths = {name: child(folder / name, commit, encoder) for name, commit in commits.items()}
    nothing = folder / "nothing.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), nothing)
    seconds: dict[str, list[float]] = {name: [] for name in commits}
    starts: dict[str, list[float]] = {name: [] for name in commits}
    for number in range(rounds):
        for name in list(commits)[:: 1 if number % 2 else -1]:
            starts[name].append(processor_seconds(paths[name], nothing, folder / f"none-{name}-{number}"))
            whole = processor_seconds(paths[name], source, folder / f"out-{name}-{number}")
            seconds[name].append(round(whole - starts[name][-1], 3))
    least = {name: min(found) for name, found in seconds.items()}
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {
        "rows_per_cpu_second": {name: round(len(texts) / found, 1) for name, found in medians.items()},
        "ratio_of_medians": round(medians["before"] / medians["now"], 3),
        "ratio_of_least": round(least["before"] / least["now"], 3),
        "seconds": seconds,
        "start_seconds": {name: round(statistics.median(found), 3) for name, found in starts.items()},
    }


def main() -> None:
    """Compare both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    resolved = ["git", "-C", str(ROOT), "rev-parse"]
    named = {"before": options.release, "now": "HEAD"}
    commits = {
        name: subprocess.run([*resolved, of], check=True, capture_output=True, text=True).stdout.strip()
        for name, of in named.items()
    }
    cases = {"starting model": (even(2_000_000), False), "encoder": (uneven(100_000), True)}
    found: dict[str, object] = {"commits": commits, "machine": machine(("pyarrow", "numpy"))}
    for name, (texts, encoder) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = compare(Path(folder), commits, texts, encoder, options.rounds)
            print(name, json.dumps(found[name]), flush=True)
    write_result(TARGET, found)


if __name__ == "__main__":
    main()
