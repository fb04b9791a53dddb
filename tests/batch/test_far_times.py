"""Times that are far away, or finer than others, come out as they went in, or their rows are bad ones."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PUT_ASIDE = ("--on-error", "quarantine", "--max-bad", 1)
NEVER, EVER, NOW = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 5, 6, 7, 8, 9)
NANOSECONDS = 1_704_067_200_123_456_789


def write(path, values, form, **columns):
    """Write a column of times as Spark, Hive and Impala do if nobody tells them otherwise."""
    column = values if isinstance(values, pa.Array) else pa.array(values, form)
    table = pa.table({"text": [f"row {n}" for n in range(len(column))], "k": column, **columns})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=2)
    return path


def kept(out):
    """Return the kept column of all rows, in the order of the input."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted((out.path / "data").glob("*.parquet")))
    return table["k"]


def test_far_years_of_96_bits_come_out_as_they_went_in(job, tmp_path, out):
    values = [NOW, None, EVER, NEVER, NOW]
    source = write(tmp_path / "a.parquet", values, pa.timestamp("us"))
    assert job("--input", source, "--output", out.path, "--keep", "k") == 0
    assert kept(out).to_pylist() == values


@pytest.mark.parametrize("form", [pa.list_(pa.timestamp("us")), pa.struct([("a", pa.timestamp("us"))])])
def test_times_of_96_bits_in_lists_and_objects(job, tmp_path, out, form):
    values = (
        [[EVER, NOW], [], None, [NEVER]] if pa.types.is_list(form) else [{"a": EVER}, {"a": None}, None, {"a": NOW}]
    )
    source = write(tmp_path / "a.parquet", values, form)
    assert job("--input", source, "--output", out.path, "--keep", "k") == 0
    assert kept(out).to_pylist() == values


def test_times_of_96_bits_under_a_name_with_a_dot(job, tmp_path, out):
    table = pa.table(
        {
            "text": ["x"],
            "a": pa.array([{"b": EVER, "c": 1}], pa.struct([("b", pa.timestamp("us")), ("c", pa.int64())])),
            "a.b": pa.array([NEVER], pa.timestamp("us")),
            "k": pa.array([NOW], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--keep", "a,a.b,k") == 0
    [row] = out.rows()
    assert (row["a"], row["a.b"], row["k"]) == ({"b": EVER, "c": 1}, NEVER, NOW)


def test_the_model_gets_times_of_96_bits_as_they_are(made, tmp_path, out):
    job = made(
        """
        import datetime
        from pydantic import BaseModel

        class Input(BaseModel):
            k: datetime.datetime

        class Output(BaseModel):
            year: int

        class Model:
            examples = (Input(k="2024-01-01T00:00:00"),)
            tolerance = 0.0

            def load(self, device):
                pass

            def predict(self, batch: list[Input]) -> list[Output]:
                return [Output(year=one.k.year) for one in batch]
        """
    )
    source = write(tmp_path / "a.parquet", [NOW, EVER, NEVER], pa.timestamp("us"))
    assert job("--input", source, "--output", out.path) == 0
    assert [row["year"] for row in out.rows()] == [2024, 9999, 1]


def numbers(form, pairs):
    """Return the column whose values are these numbers."""
    if pa.types.is_date32(form):
        return pa.array([n for n, _ in pairs], pa.int32()).cast(form)
    return pa.array([n for n, _ in pairs], pa.int64()).cast(form)
