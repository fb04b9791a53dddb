"""Times of the years 1 and 9999 in Spark's format come out as they went in."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq

NEVER, EVER, NOW = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 5, 6, 7, 8, 9)


def test_far_years_of_96_bits_come_out_as_they_went_in(job, tmp_path, out):
    values = [NOW, None, EVER, NEVER, NOW]
    listed = pa.array([[EVER, NOW], [], None, [NEVER], []], pa.list_(pa.timestamp("us")))
    table = pa.table({"text": list("abcde"), "k": pa.array(values, pa.timestamp("us")), "l": listed})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=2)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--keep", "k,l") == 0
    assert [row["k"] for row in out.rows()] == values
    assert [row["l"] for row in out.rows()] == listed.to_pylist()
