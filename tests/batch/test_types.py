"""Types of kept columns: decided once. A value comes out as it went in, or its row is in quarantine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.batch.conftest import Output, write_jsonl

LARGE = 2**53 + 1
OPTIONS = ("--on-error", "quarantine", "--max-bad", 1, "--keep", "id")
# Rows that fill the first MiB, which the types are read from.
PADDING = "x" * 1200
LATE = 1000


def write_ids(path: Path, values: list[Any]) -> Path:
    """Write rows with these values, as JSON Lines or CSV; "absent" leaves the key out of JSON."""
    if path.suffix == ".csv":
        path.write_text("text,id\n" + "".join(f"{PADDING},{value}\n" for value in values))
        return path
    rows = [{"text": PADDING} | ({} if v == "absent" else {"id": v}) for v in values]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def types_of(output: Output) -> set[str]:
    return {str(pq.read_schema(path).field("id").type) for path in (output.path / "data").iterdir()}


@pytest.mark.parametrize(
    ("name", "first", "late", "bad", "expected"),
    [
        ("a.jsonl", 7, [5.5, LARGE, None, "absent", "x", True], [5.5, "x", True], "int64"),
        ("a.jsonl", 0.5, [3, LARGE, True, 1e300], [LARGE, True], "double"),
        ("a.jsonl", "a", [1, True, "b", {"x": 1}, None], [1, True, {"x": 1}], "string"),
        ("a.jsonl", True, [1, 0.0, False], [1, 0.0], "bool"),
        ("a.csv", "7", ["007", "5.5", "0x1A", "8", "", "x"], ["007", "5.5", "0x1A", "x"], "int64"),
        ("a.csv", "0.5", ["3", "1e400", str(LARGE), "nan", "8"], ["1e400", str(LARGE), "nan"], "double"),
    ],
)
def test_a_late_value_of_another_type_is_a_bad_row(job, tmp_path, out, name, first, late, bad, expected):
    values = [*[first] * LATE, *late]
    assert job("--input", write_ids(tmp_path / name, values), "--output", out.path, *OPTIONS) == 0
    assert [str(values[row["row"]]) for row in out.quarantined()] == list(map(str, bad))
    kept = [None if value in ("absent", "") else value for value in late if str(value) not in map(str, bad)]
    kept = [value and float(value) for value in kept] if name == "a.csv" else kept
    assert [row["id"] for row in out.rows()][LATE:] == kept
    assert types_of(out) == {expected}
    assert all("--types id=" in row["reason"] for row in out.quarantined())


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "", "-20", "9007199254740993"], [1, None, -20, LARGE]),
        (["0.5", "1e3", "3", ""], [0.5, 1000.0, 3.0, None]),
        (["007", "10"], ["007", "10"]),
        (["1", "0x10"], ["1", "0x10"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["9007199254740993", "0.5"], ["9007199254740993", "0.5"]),
        (["true", "False", ""], [True, False, None]),
        (["2024-01-02", ""], ["2024-01-02", ""]),
        (["1", "x"], ["1", "x"]),
        (["1e400", "1"], ["1e400", "1"]),
        (["", ""], ["", ""]),
    ],
)
def test_cells_of_csv_get_a_type_only_if_no_digit_is_lost(job, tmp_path, out, cells, expected):
    source = write_ids(tmp_path / "a.csv", cells)
    assert job("--input", source, "--output", out.path, *OPTIONS) == 0
    assert [row["id"] for row in out.rows()] == expected


def test_a_declared_type_counts_more_than_the_first_rows(job, tmp_path, out):
    values = [*["7"] * LATE, "5.5"]
    source = write_ids(tmp_path / "a.csv", values)
    assert job("--input", source, "--output", out.path, *OPTIONS, "--types", "id=double") == 0
    assert [row["id"] for row in out.rows()][-2:] == [7.0, 5.5]
    assert not out.quarantined()
    other = Output(tmp_path / "other")
    assert job("--input", source, "--output", other.path, *OPTIONS, "--types", "id=string") == 0
    assert [row["id"] for row in other.rows()] == values


@pytest.mark.parametrize("types", ["id=number", "id", "other=int64"])
def test_types_that_do_not_exist_are_rejected(job, tmp_path, out, capsys, types):
    source = write_ids(tmp_path / "a.csv", ["1"])
    assert job("--input", source, "--output", out.path, "--keep", "id", "--types", types) == 78
    assert "--types" in capsys.readouterr().err


def test_lists_and_objects_of_json_are_kept_as_json(job, tmp_path, out):
    source = write_ids(tmp_path / "a.jsonl", [[1, "a"], {"b": None}, None])
    assert job("--input", source, "--output", out.path, *OPTIONS) == 0
    assert [row["id"] and json.loads(row["id"]) for row in out.rows()] == [[1, "a"], {"b": None}, None]


def test_all_columns_are_kept(job, tmp_path, out):
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "y"])
    assert job("--input", source, "--output", out.path, "--keep", "*") == 0
    assert [(row["id"], row["text"]) for row in out.rows()] == [(0, "x"), (1, "y")]


def test_files_of_parquet_without_a_common_type_are_rejected(job, tmp_path, out, capsys):
    for name, ids in (("a", [1]), ("b", ["x"])):
        pq.write_table(pa.table({"text": ["x"], "id": ids}), tmp_path / f"{name}.parquet")
    assert job("--input", tmp_path / "*.parquet", "--output", out.path, "--keep", "id") == 65
    assert "column 'id' has no common type" in capsys.readouterr().err


NUMBERS = st.sampled_from([0, 1, -7, 5.5, 2.0, 2**31, 2**53, LARGE, -LARGE, 2**63 - 1, 2**63, 10**20 + 1, 1e300])
VALUES = NUMBERS | st.sampled_from([None, "absent", True, False, "", "7", "2020-01-01", 10**40])


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(VALUES, min_size=1, max_size=3), st.lists(VALUES, max_size=8), st.integers(1, 4))
def test_random_tables_keep_their_values(job, tmp_path_factory, first, late, part_rows):
    folder = tmp_path_factory.mktemp("random")
    values = [*first, *first[:1] * LATE, *late]
    out = Output(folder / "out")
    source = write_ids(folder / "a.jsonl", values)
    code = job("--input", source, "--output", out.path, *OPTIONS, "--part-rows", part_rows * 300)
    if set(map(str, first)) == {"absent"}:
        assert code in (0, 78)
        return
    assert code == 0
    kept = {row["row"]: row["id"] for row in out.rows()}
    assert kept.keys() | {row["row"] for row in out.quarantined()} == set(range(len(values)))
    of_kinds = len({type(value) for value in values[: len(first) + 1] if value not in (None, "absent")}) > 1
    for row, value in kept.items():
        given_value = None if values[row] == "absent" else values[row]
        assert value == given_value or (of_kinds and json.loads(value) == given_value), (value, given_value)
