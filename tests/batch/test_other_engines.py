"""The blocks of docs/batch-engines.md, as they are on the page: DuckDB around the job, and Ray Data."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import texts
from tests.batch.ray_cluster import LIMIT_SECONDS, python_with_ray  # noqa: F401 - fixture
from tests.conftest import ROOT
from tests.journeys.blocks import parsed

pytestmark = pytest.mark.slow


def blocks(heading: str) -> list[str]:
    """Return the blocks of Python under a heading."""
    page = (ROOT / "docs" / "batch-engines.md").read_text(encoding="utf-8")
    return [one.text for one in parsed(page, "") if (one.section, one.language) == (heading, "python")]


MAKE = """
import duckdb, json, sys
with duckdb.connect("warehouse.duckdb") as warehouse:
    warehouse.execute("CREATE TABLE reviews (id BIGINT, body VARCHAR)")
    warehouse.executemany("INSERT INTO reviews VALUES (?, ?)", json.load(sys.stdin))
"""
LOOK = """
import duckdb, json
with duckdb.connect("warehouse.duckdb", read_only=True) as warehouse:
    print(json.dumps(warehouse.execute("SELECT id, text, label FROM topics ORDER BY id").fetchall()))
"""


def run_python(program: str, given: object = None, executable: Path | str = sys.executable, **own: str) -> str:
    """Run Python in a separate process; return its output."""
    command, environment = [executable, "-c", program], os.environ | own
    done = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rows_of_a_warehouse_come_back_as_a_table_and_in_other_formats(job, tmp_path: Path, monkeypatch):
    export, load = blocks("From a warehouse")
    [convert] = blocks("Other formats and folders")
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    lines = texts(50)
    run_python(MAKE, [[n, t] for n, t in enumerate(lines)][::-1])
    run_python(export)
    assert job("--input", "build/reviews.parquet", "--output", "build/result", "--keep", "id,text") == 0
    run_python(load)
    assert json.loads(run_python(LOOK)) == [[n, text, f"{len(text)} characters"] for n, text in enumerate(lines)]
    run_python(convert)
    assert len(Path("build/result.csv").read_text().splitlines()) == 51
    assert Path("build/by-file/file=reviews.parquet").is_dir()
    assert ds.dataset("build/by-file", format="parquet").count_rows() == 50


WINE = """
import pandas as pd
from pydantic import BaseModel


class Input(BaseModel):
    alcohol: float


class Output(BaseModel):
    is_strong: bool


class Model:
    examples = (Input(alcohol=12.5),)

    def load(self, device: str) -> None: ...

    def predict(self, batch: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"is_strong": batch["alcohol"] > 13})
"""


def test_the_same_model_in_ray_data(python: Path, tmp_path: Path, monkeypatch):
    [program] = blocks("The same model in Ray Data")
    package = tmp_path / "src" / "wine_grapes"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(WINE)
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": range(200), "alcohol": [11 + n % 4 for n in range(200)]}), "wines.parquet")
    own = {"PYTHONPATH": str(tmp_path / "src"), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    own |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_raylet_start_wait_time_s": str(LIMIT_SECONDS)}
    run_python(program, executable=python, **own)
    rows = ds.dataset("build/ray", format="parquet").to_table().sort_by("id").to_pylist()
    assert [(row["id"], row["is_strong"]) for row in rows] == [(n, 11 + n % 4 > 13) for n in range(200)]
