"""Why a row is a bad one, in words of the input."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

PUT_ASIDE = ("--on-error", "quarantine", "--max-bad", 1)
TYPED = """
import datetime

from pydantic import BaseModel


class Input(BaseModel):
    when: datetime.datetime | None = None
    count: int = 0
    share: float = 0.0
    word: str = ""


class Output(BaseModel):
    count: int


class Model:
    examples = (Input(),)
    tolerance = 0.0

    def load(self, device):
        pass

    def predict(self, batch: list[Input]) -> list[Output]:
        return [Output(count=one.count) for one in batch]
"""


def test_a_time_that_python_does_not_hold(made, tmp_path, out):
    fine = 1_704_067_200_123_456_789
    table = pa.table({"when": pa.array([fine, fine // 1000 * 1000], pa.timestamp("ns")), "count": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert made(TYPED)("--input", tmp_path / "a.parquet", "--output", out.path, *PUT_ASIDE) == 0
    [bad] = out.quarantined()
    assert bad["reason"].startswith(
        "the input does not fit: Casting from timestamp[ns] to timestamp[us] would lose data"
    )
    assert json.loads(bad["raw"])["when"] == "2024-01-01 00:00:00.123456789"
    assert [row["count"] for row in out.rows()] == [2]


def test_numbers_as_python_alone_writes_them_are_none(made, tmp_path, out):
    rows = ["1_0,1,a_b", "10,1_0.5,1_0", "10,1.5,1_0"]
    (tmp_path / "a.csv").write_text("\n".join(["count,share,word", *rows]) + "\n")
    assert made(TYPED)("--input", tmp_path / "a.csv", "--output", out.path, *PUT_ASIDE) == 0
    assert [bad["reason"] for bad in out.quarantined()] == [
        "column 'count' holds '1_0', which is not a number",
        "column 'share' holds '1_0.5', which is not a number",
    ]
    assert [row["count"] for row in out.rows()] == [10]
