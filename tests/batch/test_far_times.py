"""Times that are far away, or finer than others, come out as they went in, or their rows are bad ones."""

from __future__ import annotations

import csv
import datetime as dt
import json

import pyarrow as pa
import pyarrow.compute as pc
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


def test_nanoseconds_of_96_bits_stay_where_the_first_rows_have_some(job, tmp_path, out):
    source = write(tmp_path / "a.parquet", [NANOSECONDS, None, -1, 0], pa.timestamp("ns"))
    far = write(tmp_path / "b.parquet", [EVER, NOW], pa.timestamp("us"))
    assert job("--input", source, far, "--output", out.path, "--keep", "k", *PUT_ASIDE) == 0
    assert kept(out).cast(pa.int64()).to_pylist() == [NANOSECONDS, None, -1, 0, 1_714_979_289 * 10**9]
    [bad] = out.quarantined()
    assert (bad["file"], bad["row"], bad["reason"]) == ("b.parquet", 0, "column 'k' holds a time beyond nanoseconds")


def test_nanoseconds_of_96_bits_that_come_later_are_bad_rows(job, tmp_path, out):
    source = write(tmp_path / "a.parquet", [EVER, NOW], pa.timestamp("us"))
    fine = write(tmp_path / "b.parquet", [1000, NANOSECONDS, 0], pa.timestamp("ns"))
    assert job("--input", source, fine, "--output", out.path, "--keep", "k", *PUT_ASIDE) == 0
    assert kept(out).cast(pa.int64()).to_pylist() == [pc.cast(pa.scalar(EVER), pa.int64()).as_py(),
                                                      1_714_979_289 * 10**6, 1, 0]  # fmt: skip
    [bad] = out.quarantined()
    assert (bad["file"], bad["row"]) == ("b.parquet", 1)
    assert bad["reason"] == "column 'k' holds a time with parts of a microsecond"
    assert json.loads(bad["raw"])["text"] == "row 1"


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


def test_nanoseconds_of_96_bits_in_lists_are_bad_rows(job, tmp_path, out):
    values = pa.array([[1000, 2000], [NANOSECONDS], None], pa.list_(pa.timestamp("ns")))
    source = write(tmp_path / "a.parquet", values, None)
    assert job("--input", source, "--output", out.path, "--keep", "k", *PUT_ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [1]
    assert len(out.rows()) == 2


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


@pytest.mark.parametrize("first", ["us", "ns"])
def test_what_one_unit_cannot_hold_is_a_bad_row_and_not_the_end_of_the_run(job, tmp_path, out, first):
    """Nanoseconds end in 2262: a column that began without them does not become one of them."""
    far = pa.table({"text": ["far", "near"], "k": pa.array([EVER, NOW], pa.timestamp("us"))})
    fine = pa.table(
        {"text": ["fine", "coarse"], "k": pa.array([NANOSECONDS, NANOSECONDS // 1000 * 1000], pa.timestamp("ns"))}
    )
    for name, table in (("a", far if first == "us" else fine), ("b", fine if first == "us" else far)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    inputs = (tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert job("--input", *inputs, "--output", out.path, "--keep", "k,text", *PUT_ASIDE) == 0
    assert kept(out).type == pa.timestamp(first)
    [bad] = out.quarantined()
    assert (bad["file"], bad["row"]) == ("b.parquet", 0)
    assert len(kept(out)) == 3


FAR = {
    pa.timestamp("us"): [(2**62, "148108-07-06T14:00:27.387904"), (-(2**63), "-290308-12-21T19:59:05.224192"),
                         (0, "1970-01-01T00:00:00.000000"), (None, None)],
    pa.timestamp("ms"): [(2**40 * 1000, "36812-02-20T00:36:16.000"), (0, "1970-01-01T00:00:00.000")],
    pa.timestamp("us", "Europe/Berlin"): [(2**62, "148108-07-06T14:00:27.387904Z"),
                                          (0, "1970-01-01T01:00:00.000000+0100")],
    pa.timestamp("ns", "Mars/X"): [(NANOSECONDS, "2024-01-01T00:00:00.123456789Z"), (None, None)],
    pa.date32(): [(2**31 - 1, "5881580-07-11"), (-(2**31), "-5877641-06-23"), (0, "1970-01-01"), (None, None)],
    pa.time64("ns"): [(1, "00:00:00.000000001")],
    pa.duration("ns"): [(NANOSECONDS, NANOSECONDS)],
}  # fmt: skip


def numbers(form, pairs):
    """Return the column whose values are these numbers."""
    if pa.types.is_date32(form):
        return pa.array([n for n, _ in pairs], pa.int32()).cast(form)
    return pa.array([n for n, _ in pairs], pa.int64()).cast(form)


@pytest.mark.parametrize("where", ["alone", "list", "object", "map", "key"])
@pytest.mark.parametrize("form", FAR, ids=str)
def test_times_are_texts_however_far_and_fine_they_are(job, tmp_path, out, form, where):
    pairs = [pair for pair in FAR[form] if where != "key" or pair[0] is not None]
    column = numbers(form, pairs)
    begins = pa.array(range(len(pairs) + 1), pa.int32())
    expected = [text for _, text in pairs]
    if where == "list":
        column, expected = pa.ListArray.from_arrays(begins, column), [[text] for text in expected]
    elif where == "object":
        column, expected = pa.StructArray.from_arrays([column], ["a"]), [{"a": text} for text in expected]
    elif where == "map":
        column = pa.MapArray.from_arrays(begins, pa.array(["x"] * len(pairs)), column)
        expected = [{"x": text} for text in expected]
    elif where == "key":
        column, expected = pa.MapArray.from_arrays(begins, column, pa.array([1] * len(pairs))), [
            {str(text): 1} for text in expected]  # fmt: skip
    pq.write_table(pa.table({"text": ["t"] * len(pairs), "k": column}), tmp_path / "a.parquet")
    for kind in ("jsonl", "csv"):
        options = ("--keep", "k", "--output-format", kind)
        assert job("--input", tmp_path / "a.parquet", "--output", out.path / kind, *options) == 0
    lines = [json.loads(line) for line in (out.path / "jsonl" / "data" / "part-00000-000000.jsonl").open()]
    assert [line["k"] for line in lines] == expected
    cells = [row["k"] for row in csv.DictReader((out.path / "csv" / "data" / "part-00000-000000.csv").open())]
    shown = [json.dumps(one, ensure_ascii=False) if isinstance(one, list | dict) else str(one) for one in expected]
    assert cells == ["" if one == "None" else one for one in shown]


def test_keys_of_maps_are_texts(job, tmp_path, out):
    maps = {
        "bytes": (pa.binary(), [(b"a", 1)], {"YQ==": 1}),
        "objects": (pa.struct([("a", pa.int64())]), [({"a": 1}, 2)], {'{"a": 1}': 2}),
        "numbers": (pa.int64(), [(1, 2)], {"1": 2}),
        "truths": (pa.bool_(), [(True, 2)], {"true": 2}),
    }
    columns = {name: pa.array([[], pairs, None], pa.map_(form, pa.int64())) for name, (form, pairs, _) in maps.items()}
    pq.write_table(pa.table({"text": ["a", "b", "c"], **columns}), tmp_path / "a.parquet")
    options = ("--keep", ",".join(maps), "--output-format", "jsonl")
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    lines = [json.loads(line) for line in (out.path / "data" / "part-00000-000000.jsonl").open()]
    for name, (_, _, expected) in maps.items():
        assert [line[name] for line in lines] == [{}, expected, None], name


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_map_with_a_key_twice_is_named(job, tmp_path, out, capsys, kind):
    column = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"text": ["a"], "k": column}), tmp_path / "a.parquet")
    options = ("--input", tmp_path / "a.parquet", "--keep", "k")
    assert job(*options, "--output", out.path, "--output-format", kind) == 65
    assert f"a map has a key twice, which {kind} does not know" in capsys.readouterr().err
    assert job(*options, "--output", out.path / "parquet") == 0
