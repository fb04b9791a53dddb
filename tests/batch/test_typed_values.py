"""Inputs that a model.py describes: numbers, times and bytes as they were, in large parts and in quarantine too."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.made import FORMATS, TABLE, predictions, write

MIXED = """
    import datetime
    import decimal
    import enum
    import uuid

    from gpu_repo_runtime.inputs import Bytes
    from pydantic import BaseModel


    class Color(enum.Enum):
        red = "r"


    class Part(BaseModel):
        color: Color
        day: datetime.date


    class Output(BaseModel):
        amount: decimal.Decimal
        name: uuid.UUID
        color: Color
        raw: Bytes
        day: datetime.date
        took: datetime.timedelta
        parts: list[Part]
        counts: dict[Color, int]


    class Model:
        examples = ("a",)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[str]) -> list[Output]:
            day = datetime.date(2024, 2, 29)
            return [
                Output(
                    amount=decimal.Decimal("12345678901234567890.10"), name=uuid.UUID(int=1), color=Color.red,
                    raw=b"\\xff", day=day, took=datetime.timedelta(seconds=1.5), parts=[Part(color=Color.red, day=day)],
                    counts={Color.red: 3},
                )
                for _ in batch
            ]
"""


def test_fields_that_arrow_does_not_know_change_no_others(made, tmp_path, out):
    source = write(tmp_path / "a.jsonl", [{"text": "a"}])
    assert made(MIXED)("--input", source, "--output", out.path, "--keep", "") == 0
    day = datetime.date(2024, 2, 29)
    assert predictions(out) == [
        {
            "amount": "12345678901234567890.10",
            "name": "00000000-0000-0000-0000-000000000001",
            "color": "r",
            "raw": b"\xff",
            "day": day,
            "took": datetime.timedelta(seconds=1.5),
            "parts": [{"color": "r", "day": day}],
            "counts": {"r": 3},
        }
    ]


AMOUNTS = """
    from decimal import Decimal

    from pydantic import BaseModel


    class Input(BaseModel):
        amount: Decimal
        share: float = 0.0


    class Model:
        examples = (Input(amount="1"),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[Input]) -> list[dict]:
            return [{"amount": str(one.amount), "share": one.share} for one in batch]
"""
AMOUNT = "12345678901234567890.123456789"


@pytest.mark.parametrize("column", ["amount", "sum"])
def test_a_decimal_is_the_number_that_the_line_holds(made, tmp_path, out, column):
    """Not the double that is next to it."""
    lines = [f'{{"{column}": {AMOUNT}, "share": 0.1}}', f'{{"{column}": 0.10}}', f'{{"{column}": "{AMOUNT}"}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    options = () if column == "amount" else ("--columns", f"amount={column}")
    assert made(AMOUNTS)("--input", tmp_path / "a.jsonl", "--output", out.path, *options) == 0
    assert [row["amount"] for row in out.rows()] == [AMOUNT, "0.1", AMOUNT]
    assert out.rows()[0]["share"] == 0.1


def test_lines_that_are_decimals(made, tmp_path, out):
    (tmp_path / "a.jsonl").write_text(f"{AMOUNT}\n0.5\n")
    model = AMOUNTS.replace("    class Model:", "    Input = Decimal\n\n\n    class Model:")
    model = model.replace("one.amount", "one").replace("one.share", "0.0").replace('Input(amount="1")', 'Decimal("1")')
    assert made(model)("--input", tmp_path / "a.jsonl", "--output", out.path) == 0
    assert [row["amount"] for row in out.rows()] == [AMOUNT, "0.5"]


@pytest.mark.parametrize("name", FORMATS)
def test_inputs_of_large_parts_are_read_in_pieces(made, tmp_path, out, name, monkeypatch):
    job = made(TABLE)
    monkeypatch.setattr(job.module("textfiles"), "PARSED_BYTES", 50)
    monkeypatch.setattr(job.module("parquetcuts"), "READ_BYTES", 50)
    source = write(tmp_path / name, [{"age": n, "city": f"city {n}"} for n in range(40)])
    assert job("--input", source, "--output", out.path, "--keep", "age") == 0
    assert [(int(row["age"]), row["text"].split(" None")[0].rsplit(" ", 1)[0]) for row in out.rows()] == [
        (n, f"city {n}") for n in range(40)
    ]


def test_an_input_beside_a_value_that_cannot_be_kept_is_in_quarantine(made, tmp_path, out):
    pq.write_table(pa.table({"age": [1], "id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"age": [2], "id": [2**60 + 1]}), tmp_path / "b.parquet")
    options = ("--keep", "id", "--on-error", "quarantine", "--max-bad", 1)
    assert made(TABLE)("--input", tmp_path / "*.parquet", "--output", out.path, *options) == 0
    [bad] = out.quarantined()
    assert json.loads(bad["raw"]) == {"age": 2, "id": 2**60 + 1}
