"""Numbers through scikit-learn, from Parquet and CSV: processor time after the start; write results/batch-numbers.json.

usage: python -m benchmarks.batch.numbers [--rows 200000] [--rounds 3]

Needs scikit-learn, pandas and joblib; Ray Data takes part if ray is installed. Every contestant is a process with one
thread. The time of the same process for 200 rows is its start, which is left out. Contestants take turns, so that the
load of the machine meets all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import ROOT
from benchmarks.result_files import machine, write_result

FEW = 200
MODEL = """
from pathlib import Path
import joblib
import pandas as pd
from pydantic import BaseModel, create_model

Input = create_model("Input", **{f"x{n}": (float, ...) for n in range(1, 14)})

class Output(BaseModel):
    grape: int
    probability: float

class Model:
    examples = tuple(Input(**dict.fromkeys(Input.model_fields, value)) for value in (1.0, 5.0))
    tolerance = 1e-6

    def load(self, device: str) -> None:
        self.pipeline = joblib.load(Path(__file__).with_name("wine.joblib"))

    def predict(self, batch: BATCH) -> ANSWER:
        BODY
"""
TABLE = """odds = self.pipeline.predict_proba(batch)
        return pd.DataFrame({"grape": odds.argmax(axis=1), "probability": odds.max(axis=1)})"""
RECORDS = """odds = self.pipeline.predict_proba(pd.DataFrame([one.model_dump() for one in batch]))
        return [Output(grape=one.argmax(), probability=one.max()) for one in odds]"""
BEGIN = """
import sys
import joblib, pandas as pd, pyarrow as pa, pyarrow.csv as pc, pyarrow.parquet as pq
pipeline, source, target = joblib.load(sys.argv[1]), sys.argv[2], sys.argv[3]
"""
SCRIPTS = {
    "pyarrow and the model": """
table = pq.read_table(source) if source.endswith(".parquet") else pc.read_csv(source)
odds = pipeline.predict_proba(table.drop_columns(["id"]).to_pandas())
found = {"id": table["id"], "grape": odds.argmax(axis=1), "probability": odds.max(axis=1)}
pq.write_table(pa.table(found), target, compression="zstd")
""",
    "a loop over batches of pandas": """
batches = (
    (batch.to_pandas() for batch in pq.ParquetFile(source).iter_batches(8192))
    if source.endswith(".parquet")
    else pd.read_csv(source, chunksize=8192)
)
found = []
for batch in batches:
    odds = pipeline.predict_proba(batch.drop(columns="id"))
    found.append(pd.DataFrame({"id": batch.id, "grape": odds.argmax(axis=1), "probability": odds.max(axis=1)}))
pd.concat(found).to_parquet(target)
""",
    "Ray Data": """
import ray
ray.init(num_cpus=1, logging_level="ERROR", include_dashboard=False)
def predict(batch):
    odds = pipeline.predict_proba(batch.drop(columns="id"))
    return pd.DataFrame({"id": batch.id, "grape": odds.argmax(axis=1), "probability": odds.max(axis=1)})
data = ray.data.read_parquet(source) if source.endswith(".parquet") else ray.data.read_csv(source)
data.map_batches(predict, batch_format="pandas", batch_size=8192).write_parquet(target)
""",
}
MAKE = """
import sys
import joblib, numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
wine = load_wine(as_frame=True)
numbers = wine.data.set_axis([f"x{n}" for n in range(1, 14)], axis="columns")
joblib.dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers, wine.target), sys.argv[1])
for name, rows in (("few", int(sys.argv[2])), ("all", int(sys.argv[3]))):
    table = numbers.sample(rows, replace=True, random_state=1)
    table = table + np.random.default_rng(0).normal(0, 0.01, table.shape)
    table.insert(0, "id", range(rows))
    table.to_csv(f"{name}.csv", index=False)
    table.to_parquet(f"{name}.parquet", index=False)
"""


def prepared(folder: Path, rows: int) -> dict[str, list[str]]:
    """Write model and inputs; return the command of each contestant."""
    weights = folder / "wine.joblib"
    subprocess.run([sys.executable, "-c", MAKE, str(weights), str(FEW), str(rows)], cwd=folder, check=True)
    commands = {}
    for name, script in SCRIPTS.items():
        if name != "Ray Data" or importlib.util.find_spec("ray"):
            commands[name] = [sys.executable, "-c", BEGIN + script, str(weights)]
    kinds = {
        "this template, tables": ("pd.DataFrame", "pd.DataFrame", TABLE),
        "this template, records": ("list[Input]", "list[Output]", RECORDS),
    }
    for number, (name, (batch, answer, body)) in enumerate(kinds.items()):
        package = folder / "src" / f"grapes_{number}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "wine.joblib").write_bytes(weights.read_bytes())
        source = MODEL.replace("BATCH", batch).replace("ANSWER", answer).replace("BODY", body)
        (package / "model.py").write_text(source)
        commands[name] = [sys.executable, "-m", "gpu_repo_runtime.batch", package.name, "run"]
    return commands


def seconds(command: list[str], source: Path, folder: Path) -> tuple[float, float]:
    """Return the processor time and the time of a run."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        if "run" in command:
            more = ["--input", str(source), "--output", f"{output}/out", "--keep", "id", "--device", "cpu"]
        else:
            more = [str(source), f"{output}/out"]
        path = f"{folder / 'src'}{os.pathsep}{ROOT / 'runtime' / 'src'}"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, *more], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{command[:4]} failed: {errors.decode()[-2000:]}")
        return used.ru_utime + used.ru_stime, time.perf_counter() - begin


def main() -> None:
    """Let all contestants take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        commands = prepared(folder, options.rows)
        for _ in range(options.rounds):
            for kind in ("parquet", "csv"):
                for name, command in commands.items():
                    start, waited = seconds(command, folder / f"few.{kind}", folder)
                    whole, time_taken = seconds(command, folder / f"all.{kind}", folder)
                    figures.setdefault(kind, {}).setdefault(name, []).append(
                        (whole - start, time_taken - waited, start)
                    )
                    print(f"{kind:8} {name:32} {whole - start:7.2f} s of processor time, start {start:.2f} s")
    rows = [
        {
            "input": kind,
            "way": name,
            # The processes of Ray are not this one's.
            "cpu_seconds": None if name == "Ray Data" else round(statistics.median(one[0] for one in found), 2),
            "seconds": round(statistics.median(one[1] for one in found), 2),
            "start_cpu_seconds": None if name == "Ray Data" else round(statistics.median(one[2] for one in found), 2),
        }
        for kind, ways in figures.items()
        for name, found in ways.items()
    ]
    packages = [name for name in ("scikit-learn", "pandas", "pyarrow", "pydantic", "ray") if _is_there(name)]
    result = {
        "rows": options.rows,
        "columns": 13,
        "rounds": options.rounds,
        "figures": rows,
        "machine": machine(packages),
    }
    write_result(ROOT / "benchmarks" / "results" / "batch-numbers.json", result)


def _is_there(name: str) -> bool:
    return importlib.util.find_spec({"scikit-learn": "sklearn"}.get(name, name)) is not None


if __name__ == "__main__":
    main()
