"""A model that takes a table: the same answers as one that takes records, from every format; bad rows are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output
from tests.batch.made import write as write_rows

pytest.importorskip("pandas")

SOURCE = """
    from typing import Literal

    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    from pydantic import BaseModel, Field


    class Input(BaseModel):
        x: float
        count: int{limit}
        name: str = "nameless"
        gap: float | None = None
        good: bool = True


    class Output(BaseModel):
        total: float
        text: str


    class Model:
        examples = (Input(x=1.5, count=2, name="a"), Input(x=3, count=1, name="b", gap=1))

        def load(self, device: str) -> None: ...

        {predict}
"""
PREDICT = {
    "pandas": """def predict(self, batch: pd.DataFrame) -> pd.DataFrame:
            text = [f"{n} {g}" for n, g in zip(batch["name"], batch["good"])]
            return pd.DataFrame({"total": batch["x"] + batch["count"] + batch["gap"].fillna(0.25), "text": text})""",
    "numpy": """def predict(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            gap = np.where(np.isnan(batch["gap"]), 0.25, batch["gap"])
            text = np.array([f"{n} {g}" for n, g in zip(batch["name"], batch["good"])])
            return {"total": batch["x"] + batch["count"] + gap, "text": text}""",
    "pyarrow": """def predict(self, batch: pa.Table) -> pa.Table:
            rows = batch.to_pylist()
            total = [one["x"] + one["count"] + (0.25 if one["gap"] is None else one["gap"]) for one in rows]
            return pa.table({"total": total, "text": [f"{one['name']} {one['good']}" for one in rows]})""",
    "records": """def predict(self, batch: list[Input]) -> list[Output]:
            def total(one):
                return one.x + one.count + (0.25 if one.gap is None else one.gap)

            return [Output(total=total(one), text=f"{one.name} {one.good}") for one in batch]""",
}
FORMATS = ["a.csv", "a.jsonl", "a.parquet"]
ASIDE = ("--on-error", "quarantine", "--max-bad", 1)
ROWS: list[dict[str, Any]] = [
    {"id": n, "x": n / 4, "count": n % 7, "name": f"n{n}", "gap": None if n % 3 else n / 2, "good": n % 2 == 0}
    for n in range(600)
]


def source(kind: str, limit: str = "") -> str:
    return SOURCE.replace("{predict}", PREDICT[kind]).replace("{limit}", limit)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows; None is an empty cell, null, or a key that is not there."""
    return write_rows(path, [{name: value for name, value in row.items() if value is not None} for row in rows])


def answers(out: Output) -> list[tuple[float, str]]:
    return [(row["total"], row["text"]) for row in out.rows()]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", PREDICT)
def test_tables_and_records_give_the_same_answers(made, tmp_path, out, name, kind):
    options = ("--keep", "id", "--part-rows", 250)
    assert made(source(kind))("--input", write(tmp_path / name, ROWS), "--output", out.path, *options) == 0
    expected = [
        (r["x"] + r["count"] + (0.25 if r["gap"] is None else r["gap"]), f"{r['name']} {r['good']}") for r in ROWS
    ]
    assert answers(out) == expected
    assert [row["id"] for row in out.rows()] == list(range(600))
    schema = pq.read_schema(next((out.path / "data").iterdir()))
    assert [str(schema.field(column).type) for column in ("id", "total", "text")] == ["int64", "double", "string"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["pandas", "records"])
def test_bad_rows_are_named_and_the_others_are_right(made, tmp_path, out, name, kind):
    rows = [dict(row) for row in ROWS]
    bad = {7: "x", 400: "count", 599: "x"}
    rows[7]["x"], rows[400]["count"], rows[599]["x"] = (
        ("broken", 1.5, None) if name != "a.parquet" else (None, None, None)
    )
    if name == "a.csv":
        rows[8]["x"], rows[9]["count"] = " 2.25", "+3"
    made_job = made(source(kind))
    assert made_job("--input", write(tmp_path / name, rows), "--output", out.path, *ASIDE) == 0
    found = {row["row"]: row["reason"] for row in out.quarantined()}
    assert found.keys() == bad.keys()
    assert all(f"invalid row: {bad[row]}: " in reason for row, reason in found.items()), found
    assert len(answers(out)) == 597
    if name == "a.csv":
        assert [total for total, _ in answers(out)[7:9]] == [2.25 + 1 + 0.25, 2.25 + 3 + 4.5]


@pytest.mark.parametrize("limit", [" = Field(ge=1)", "\n        kind: Literal['a', 'b'] = 'a'"])
@pytest.mark.parametrize("kind", ["numpy", "records"])
def test_limits_of_a_field_hold_for_tables_too(made, tmp_path, out, kind, limit):
    rows = [{**row, "kind": "c" if row["count"] == 0 else "b"} for row in ROWS[:20]]
    job = made(source(kind, limit=limit))
    assert job("--input", write(tmp_path / "a.parquet", rows), "--output", out.path, *ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [n for n in range(20) if n % 7 == 0]


@pytest.mark.parametrize("cell", ["0x10", "1e400", "nan(1)", "1e999", "९"])
@pytest.mark.parametrize("kind", ["pyarrow", "records"])
def test_a_cell_that_only_one_parser_reads_is_no_number(made, tmp_path, out, cell, kind):
    column = "count" if cell == "0x10" else "x"
    rows = [*ROWS[:3], {**ROWS[3], column: cell}, ROWS[4]]
    assert made(source(kind))("--input", write(tmp_path / "a.csv", rows), "--output", out.path, *ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [3]


@pytest.mark.parametrize("kind", ["pandas", "records"])
def test_a_column_that_is_missing_has_its_default(made, tmp_path, out, kind):
    for name in FORMATS:
        rows = [{"x": row["x"], "count": row["count"]} for row in ROWS[:5]]
        (tmp_path / name).unlink(missing_ok=True)
        output = Output(out.path / name)
        assert made(source(kind))("--input", write(tmp_path / name, rows), "--output", output.path) == 0
        assert answers(output) == [(n / 4 + n + 0.25, "nameless True") for n in range(5)]


@pytest.mark.parametrize("name", ["a.jsonl", "b.csv", "c.parquet"])
@pytest.mark.parametrize("kind", ["pandas", "records"])
def test_a_field_that_first_appears_late_is_read(made, tmp_path, out, name, kind):
    """Exports that leave out nulls look like this; in CSV and Parquet a later file has the column."""
    early = [{"x": 1.0, "count": 1, "note": "p" * 1000} for _ in range(1100)]
    late = [{"x": 1.0, "count": 1, "gap": 5.0}]
    if name == "a.jsonl":
        sources = [write(tmp_path / name, early + late)]
    else:
        suffix = Path(name).suffix
        sources = [write(tmp_path / f"1{suffix}", early), write(tmp_path / f"2{suffix}", late)]
    assert made(source(kind))("--input", *sources, "--output", out.path) == 0
    assert answers(out)[-1] == (7.0, "nameless True")
    assert answers(out)[0] == (2.25, "nameless True")


def test_answers_that_are_not_the_outputs_are_bad_rows(made, tmp_path, out):
    wrong = source("pandas").replace('"text": text}', '"text": [None if n == "n3" else n for n in batch["name"]]}')
    rows = write(tmp_path / "a.parquet", ROWS[:6])
    assert made(wrong)("--input", rows, "--output", out.path, *ASIDE) == 0
    [bad] = out.quarantined()
    assert (bad["row"], "the model's answer does not fit" in bad["reason"]) == (3, True)


def test_csv_without_a_header_and_with_words_for_null(made, tmp_path, out):
    (tmp_path / "a.csv").write_text("0,1.5,2,NA\n1,2.5,3,4.0\n2,NA,1,1\n")
    options = ("--header", "id,x,count,gap", "--null", "NA,null", "--keep", "id", *ASIDE)
    assert made(source("pandas"))("--input", tmp_path / "a.csv", "--output", out.path, *options) == 0
    assert answers(out) == [(1.5 + 2 + 0.25, "nameless True"), (2.5 + 3 + 4, "nameless True")]
    assert [row["row"] for row in out.quarantined()] == [2]


NULLABLE = """
    import pandas as pd
    from pydantic import BaseModel, Field


    class Input(BaseModel):
        word: str | None = Field(alias="Word")
        plain: str = "x"


    Output = str


    class Model:
        examples = (Input(Word="a"),)

        def load(self, device: str) -> None: ...

        def predict(self, batch: TAKEN) -> list[Output]:
            return ["null" if pd.isna(word) else word for word in WORDS]
"""


@pytest.mark.parametrize("words", ["list[Input]: [one.word for one in batch]", 'pd.DataFrame: batch["word"]'])
@pytest.mark.parametrize("column", ["Word", "word"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_column_has_the_name_of_the_field_or_its_alias_and_an_empty_cell_is_null(
    made, tmp_path, out, name, column, words
):
    taken, words = words.split(": ")
    rows = [{column: "a", "plain": "b"}, {column: None if name != "a.csv" else "", "plain": "c"}]
    model = NULLABLE.replace("TAKEN", taken).replace("WORDS", words)
    assert made(model)("--input", write_rows(tmp_path / name, rows), "--output", out.path) == 0
    assert [row["prediction"] for row in out.rows()] == ["a", "null"]
