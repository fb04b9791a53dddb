"""Columns of Parquet whose types differ between files: each value comes out as it went in, or its row is put aside."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.test_types import LARGE, OPTIONS
from tests.sampling import every, sampled

Case = tuple[pa.Array, pa.Array, list[Any]]
MONEY = pa.decimal128(10, 2)
# The column in the first file and in the second, and which of its values no type holds together with the first ones.
CASES: dict[str, Case] = {
    "few whole numbers among decimals": (pa.array([Decimal("1.25")], MONEY), pa.array([7], pa.int8()), []),
    "more digits": (pa.array([Decimal("1.25")], MONEY), pa.array([Decimal("0.001")], pa.decimal128(38, 3)), []),
    "bytes of one length": (pa.array([b"ab"], pa.binary(2)), pa.array([b"abc", None], pa.binary(3)), []),
    "larger numbers": (pa.array([1, 2], pa.int8()), pa.array([LARGE]), []),
    "fractions": (pa.array([1, 2]), pa.array([5.5, 3.0]), []),
    "a number that fractions would change": (pa.array([LARGE, 2]), pa.array([5.5]), [LARGE]),
    "finer times": (pa.array([1], pa.timestamp("s")), pa.array([2], pa.timestamp("us")), []),
    "a dictionary": (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.large_string()), []),
    "lists of another library": (pa.array([["a"]]), pa.array([["b", None], []], pa.large_list(pa.string())), []),
    "a time that nanoseconds do not reach": (
        pa.array([datetime(2024, 1, 1)], pa.timestamp("ns")),
        pa.array([datetime(1500, 1, 1), datetime(2024, 1, 2)], pa.timestamp("us")),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sampled(CASES, every(2)))
def test_a_type_of_another_file(job, tmp_path, out, case):
    first, second, bad = CASES[case]
    for name, ids in (("a", first), ("b", second)):
        pq.write_table(pa.table({"text": ["x"] * len(ids), "id": ids}), tmp_path / f"{name}.parquet")
    assert job("--input", tmp_path / "*.parquet", "--output", out.path, *OPTIONS) == 0
    given = {("a.parquet", n): v for n, v in enumerate(first.to_pylist())}
    given |= {("b.parquet", n): v for n, v in enumerate(second.to_pylist())}
    aside = {(row["file"], row["row"]): given.pop((row["file"], row["row"])) for row in out.quarantined()}
    assert list(aside.values()) == bad
    kept = {(row["file"], row["row"]): row["id"] for row in out.rows()}
    assert kept == {place: getattr(value, "to_pydatetime", lambda v=value: v)() for place, value in given.items()}
    assert len({str(pq.read_schema(path).remove_metadata()) for path in (out.path / "data").iterdir()}) == 1


def test_far_years_in_sparks_format_come_out_as_they_went_in(job, tmp_path, out):
    now, ever, never = datetime(2024, 5, 6, 7, 8, 9), datetime.max, datetime.min
    values = [now, None, ever, never, now]
    listed = pa.array([[ever, now], [], None, [never], []], pa.list_(pa.timestamp("us")))
    table = pa.table({"text": list("abcde"), "k": pa.array(values, pa.timestamp("us")), "l": listed})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=2)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--keep", "k,l") == 0
    assert [row["k"] for row in out.rows()] == values
    assert [row["l"] for row in out.rows()] == listed.to_pylist()


def test_the_first_file_has_no_rows(job, tmp_path, out):
    """As an empty day that another program has written without knowing the types."""
    empty = pa.array([], pa.string())
    pq.write_table(pa.table({"text": empty, "id": empty}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["x", "y"], "id": [1, 2]}), tmp_path / "b.parquet")
    assert job("--input", tmp_path / "*.parquet", "--output", out.path, *OPTIONS) == 0
    assert [row["id"] for row in out.rows()] == [1, 2]
    assert not out.quarantined()


def test_a_page_whose_content_is_not_that_of_its_checksum(job, tmp_path, out):
    """A bit that a disk has turned: without the checksum it is another text, which nobody misses."""
    source = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text number {n}" for n in range(100)]})
    pq.write_table(table, source, compression="none", use_dictionary=False, write_page_checksum=True)
    content = source.read_bytes()
    place = content.index(b"text number 50")
    source.write_bytes(content[:place] + b"fext" + content[place + 4 :])
    assert job("--input", source, "--output", out.path) == 65
    assert job("--input", source, "--output", tmp_path / "all", "--on-error", "quarantine", "--max-bad", 1) == 0
    assert not list((tmp_path / "all" / "data").glob("*/*"))
    assert "cannot be read" in pq.read_table(tmp_path / "all" / "_quarantine")["reason"][0].as_py()
