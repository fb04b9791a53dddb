"""Inputs that a model.py describes: numbers, times and bytes as they were, in large parts and in quarantine too."""

from __future__ import annotations

import datetime

import pytest

from tests.batch.made import predictions, write

MIXED = """
    import datetime
    import decimal
    import enum
    import uuid

    from gpu_repo_runtime.inputs import Bytes
    from pydantic import BaseModel


    class Color(enum.Enum):
        red = "r"


    class Output(BaseModel):
        amount: decimal.Decimal
        name: uuid.UUID
        color: Color
        raw: Bytes
        day: datetime.date
        counts: dict[Color, int]


    class Model:
        examples = ("a",)

        def load(self, device: str) -> None: ...

        def predict(self, batch: list[str]) -> list[Output]:
            return [
                Output(
                    amount=decimal.Decimal("12345678901234567890.10"), name=uuid.UUID(int=1), color=Color.red,
                    raw=b"\\xff", day=datetime.date(2024, 2, 29), counts={Color.red: 3},
                )
                for _ in batch
            ]
"""


def test_fields_that_arrow_does_not_know_change_no_others(made, tmp_path, out):
    source = write(tmp_path / "a.jsonl", [{"text": "a"}])
    assert made(MIXED)("--input", source, "--output", out.path, "--keep", "") == 0
    assert predictions(out) == [
        {
            "amount": "12345678901234567890.10",
            "name": "00000000-0000-0000-0000-000000000001",
            "color": "r",
            "raw": b"\xff",
            "day": datetime.date(2024, 2, 29),
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
    assert [row["amount"] for row in out.rows()] == [AMOUNT, "0.10", AMOUNT]
    assert out.rows()[0]["share"] == 0.1
