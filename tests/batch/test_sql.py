"""The recipe of docs/batch.md for a warehouse, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from tests.batch.conftest import texts
from tests.conftest import ROOT


def recipe() -> list[str]:
    """Return the blocks of Python under the heading."""
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    section = page.split("### From a warehouse\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_rows_of_a_warehouse_come_back_as_a_table(job, tmp_path: Path, monkeypatch):
    export, load = recipe()
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    lines = texts(50)
    with duckdb.connect("warehouse.duckdb") as warehouse:
        warehouse.execute("CREATE TABLE reviews (id BIGINT, body VARCHAR)")
        warehouse.executemany("INSERT INTO reviews VALUES (?, ?)", [[n, t] for n, t in enumerate(lines)][::-1])
    exec(export, {})
    assert job("--input", "build/reviews.parquet", "--output", "build/result", "--keep", "id,text") == 0
    exec(load, {})
    with duckdb.connect("warehouse.duckdb", read_only=True) as warehouse:
        rows = warehouse.execute("SELECT id, text, label FROM topics ORDER BY id").fetchall()
    assert rows == [(n, text, f"{len(text)} characters") for n, text in enumerate(lines)]
