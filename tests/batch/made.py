"""Inputs of a model with fields in each format, and what it says of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.batch.conftest import Output

TABLE = """
    from datetime import date
    from typing import Literal

    from pydantic import BaseModel


    class Input(BaseModel):
        age: int
        city: str = "nowhere"
        weight: float | None = 70.5
        since: date | None = None


    class Output(BaseModel):
        kind: Literal["old", "young"]
        text: str
        late: float | None


    class Model:
        examples = (Input(age=3),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [
                Output(kind="old" if one.age > 60 else "young", text=f"{one.city} {one.weight} {one.since}", late=None)
                for one in batch
            ]
"""
FORMATS = ["a.parquet", "a.jsonl", "a.csv"]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format that the name tells; a value that is missing is null, empty or not there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows]), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            plain = (str, int, float)
            cells = [[v if isinstance(v := row.get(n, ""), plain) else json.dumps(v) for n in names] for row in rows]
            csv.writer(file).writerows([names, *cells])
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def predictions(out: Output) -> list[dict[str, Any]]:
    """Return what the model said of each row."""
    return [{key: value for key, value in row.items() if key not in ("file", "row")} for row in out.rows()]
