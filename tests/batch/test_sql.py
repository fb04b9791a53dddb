"""The recipe of docs/batch.md for a warehouse, as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batch.conftest import texts
from tests.conftest import ROOT


def recipe() -> list[str]:
    """Return the blocks of Python under the heading."""
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    section = page.split("### From a warehouse\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


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


def python(program: str, told: object = None) -> str:
    """Run Python in a process of its own, which DuckDB's library leaves with words of its own; return its output."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_rows_of_a_warehouse_come_back_as_a_table(job, tmp_path: Path, monkeypatch):
    export, load = recipe()
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    lines = texts(50)
    python(MAKE, [[n, t] for n, t in enumerate(lines)][::-1])
    python(export)
    assert job("--input", "build/reviews.parquet", "--output", "build/result", "--keep", "id,text") == 0
    python(load)
    assert json.loads(python(LOOK)) == [[n, text, f"{len(text)} characters"] for n, text in enumerate(lines)]
