"""Input that nearly passes for something else: it is refused, put aside or comes out as it is, and never changed."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl
from tests.batch.made import TABLE
from tests.sampling import every, sampled

PUT_ASIDE = ("--on-error", "quarantine", "--max-bad", 0.9)
LONG = b"a" * 2000
CSV_ROWS: dict[str, tuple[bytes, list[str], list[int]]] = {
    "a long line": (b"text\nok\n" + LONG + b"\nb\n", ["ok", "b"], [1]),
    "a long line in quotes": (b'text,k\nok,1\n"start\n' + LONG + b'\nend",2\nb,3\n', ["ok", "b"], [1]),
    "a long line that opens a quote": (b'text,k\nok,1\n"' + LONG + b'\nend",2\nb,3\n', ["ok", "b"], [1]),
    "a long line in quotes before others": (b'text,k\n"' + LONG + b'",1\n"b",2\nc,3\n', ["b", "c"], [0]),
    "many short lines": (b'text\nok\n"' + b"c\n" * 600 + b'"\nb\n', ["ok", "b"], [1]),
    "text like a mark": (b"text,k\n\0too long,1\n\0x,2,3\nb,3\n", ["\0too long", "b"], [1]),
}


@pytest.mark.parametrize("case", sampled(CSV_ROWS, every(3)))
def test_no_row_of_csv_is_made_up(job, tmp_path, out, case):
    content, good, bad = CSV_ROWS[case]
    (tmp_path / "a.csv").write_bytes(content)
    options = ("--max-row-bytes", 1000, *PUT_ASIDE)
    assert job("--input", tmp_path / "a.csv", "--output", out.path, *options) == 0
    assert [row["text"] for row in out.rows()] == good, case
    assert [row["row"] for row in out.quarantined()] == bad, case


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_kept_column_that_is_no_utf8(job, tmp_path, out, kind):
    offsets = np.array([0, 2, 4], np.int64 if kind == pa.large_string() else np.int32)
    k = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff\xfeok")])
    pq.write_table(pa.table({"text": ["a", "b"], "k": k}), tmp_path / "a.parquet")
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--keep", "k", *PUT_ASIDE) == 0
    assert [row["k"] for row in out.rows()] == ["ok"]
    assert out.quarantined()[0]["reason"] == "column 'k' is not UTF-8"


NUMBERS: dict[str, tuple[Any, bool]] = {
    "1e300 in a list": ([1e300], False),
    "in a list of lists": ([[1e300]], True),
    "infinity itself": ([float("inf")], True),
    "of NumPy": (np.array([1e300]), False),
    "as float32": (np.array([np.inf], np.float32), True),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", sampled(NUMBERS, every(3)))
def test_no_number_becomes_infinite(job, model, tmp_path, out, monkeypatch, case):
    value, fits = NUMBERS[case]
    first = [[0.5]] if case == "in a list of lists" else [0.5]
    monkeypatch.setattr(model, "predict", lambda self, batch: [{"v": value if t == "late" else first} for t in batch])
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x", "late"]), "--output", out.path, *PUT_ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == ([] if fits else [1])
    if fits:
        assert out.rows()[1]["v"] == (value if isinstance(value, list) else value.tolist())


@pytest.mark.parametrize("number", ["1e400", "-1e400", "[1e400]"])
def test_a_number_of_json_that_no_double_holds(job, tmp_path, out, number):
    first = "[0.5]" if number.startswith("[") else "0.5"
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "k": {first}}}\n{{"text": "b", "k": {number}}}\n')
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, "--keep", "k", *PUT_ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [1]


INFINITE = {
    "a.jsonl": ['{"age": 1, "weight": 1e400}', '{"age": 1, "weight": Infinity}', '{"age": 1, "city": "1e400"}'],
    "a.csv": ["age,city,weight", "1,a,1e400", "1,a,inf", "1,1e400,70.5"],
}


@pytest.mark.parametrize("name", INFINITE)
def test_a_number_of_an_input_that_no_double_holds(made, tmp_path, out, name):
    (tmp_path / name).write_text("".join(f"{row}\n" for row in INFINITE[name]))
    assert made(TABLE)("--input", tmp_path / name, "--output", out.path, *PUT_ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [0]
    assert "too large for a double" in out.quarantined()[0]["reason"]
    assert [row["text"].split()[:2] for row in out.rows()][1][0] == "1e400"


@pytest.mark.parametrize("encoding", sampled(["utf-16", "utf-16-le", "utf-16-be"], ["utf-16"]))
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.jsonl.gz"])
def test_utf_16_is_refused(job, tmp_path, out, capsys, name, encoding):
    content = "".join(f'{{"text": "row {n}"}}\n' for n in range(30)).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert job("--input", tmp_path / name, "--output", out.path, "--on-error", "skip", "--max-bad", 1) == 65
    assert "is UTF-16" in capsys.readouterr().err


TIMES = {
    "nanoseconds": (np.datetime64("2024-01-01T00:00:00.123456789"), False),
    "microseconds": (np.datetime64("2024-01-01T00:00:00.123456"), True),
    "microseconds in nanoseconds": (np.datetime64("2024-01-01T00:00:00.123456000"), True),
}


@pytest.mark.parametrize("case", sampled(TIMES, every(3)))
def test_a_time_of_numpy_is_a_time_or_refused(job, model, tmp_path, out, monkeypatch, case):
    value, fits = TIMES[case]
    monkeypatch.setattr(model, "predict", lambda self, batch: [{"at": value}] * len(batch))
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", source, "--output", out.path) == (0 if fits else 78)
    if fits:
        assert np.datetime64(out.rows()[0]["at"]) == value


BROKEN = {
    "a.txt.gz": b"plain\n",
    "b.jsonl.gz": gzip.compress(b'{"text": "x"}\n')[:-3] + b"xyz",
    "c.jsonl.zst": b"no zstd at all",
    "d.csv.gz": gzip.compress(b"text\nx\n")[:9],
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_archive_that_breaks_at_once_is_bad_input(job, tmp_path, out, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    write_jsonl(tmp_path / "fine.jsonl", ["fine"])
    assert job("--input", tmp_path / name, "--output", out.path) == 65
    arguments = ("--input", tmp_path / "*.*", "--output", tmp_path / "all", "--on-error", "quarantine")
    assert job(*arguments, "--max-bad", 1) == 0
    all_of_them = Output(tmp_path / "all")
    assert "fine" in [row["text"] for row in all_of_them.rows()]
    assert [row["file"] for row in all_of_them.quarantined()] == [name]


@pytest.mark.parametrize("answer", [{1: 2}, {("a", 1): 2}, {"v": 1, 2: 3}])
def test_keys_of_answers_are_texts(job, model, tmp_path, out, monkeypatch, answer):
    monkeypatch.setattr(model, "predict", lambda self, batch: [answer] * len(batch))
    assert job("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path) == 78


def test_a_file_that_is_not_in_the_encoding_that_was_said(job, tmp_path, out, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", texts(5))
    assert job("--input", source, "--output", out.path, "--encoding", "utf-16") == 65
    said = capsys.readouterr().err
    assert "a.jsonl, row 0: an unknown number of rows" in said
    assert "tream does not start with BOM" in said


def test_what_begins_with_nulls_takes_any_type(job, tmp_path, out):
    lines = [{"text": "x", "k": None}] * 1200 + [{"text": "x", "k": 5}, {"text": "x", "k": 6.5}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, "--keep", "k", "--part-rows", 500) == 0
    assert [row["k"] for row in out.rows()][-2:] == [5.0, 6.5]
    pq.write_table(pa.table({"text": ["x"], "k": pa.nulls(1)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"text": ["x"], "k": [7]}), tmp_path / "1.parquet")
    later = Output(tmp_path / "later")
    assert job("--input", tmp_path / "*.parquet", "--output", later.path, "--keep", "k") == 0
    assert [row["k"] for row in later.rows()] == [None, 7]


RAW: dict[str, tuple[bytes, list[bytes | None]]] = {
    "a.jsonl": (b'{"text": "fine"}\n{"text": \xff}\n{"text": "RAISE"}\n', [b'{"text": \xff}', b"RAISE"]),
    "a.csv": (b"text,k\nfine,1\na,b,c\nRAISE,2\n", [b"a,b,c", b"RAISE"]),
    "a.txt": (b"fine\n\xff\xfe\nRAISE\n", [b"\xff\xfe", b"RAISE"]),
    "b.txt": (b"fine\n" + LONG + b"\n", [None]),
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_put_aside_is_there_as_it_was(job, tmp_path, out, name):
    content, raw = RAW[name]
    (tmp_path / name).write_bytes(content)
    options = ("--max-row-bytes", 1000, *PUT_ASIDE)
    assert job("--input", tmp_path / name, "--output", out.path, *options) == 0
    assert [row["raw"] for row in out.quarantined()] == raw


@pytest.mark.parametrize("name", sampled(["a\nb.txt", "a\x1b[2J.txt", "a\u202eb.txt", "a\u2028b.txt"], every(2)))
def test_a_name_does_not_write_lines_of_its_own(job, tmp_path, out, capsys, name):
    """A log is read by line, and a terminal obeys what it shows."""
    (tmp_path / name).write_bytes(b"\xff\n")
    assert job("--input", tmp_path / name, "--output", out.path) == 65
    said = capsys.readouterr().err
    assert all(line.startswith("job: ") for line in said.splitlines()), said
    assert name.encode("unicode_escape").decode() in said
    assert job("--input", tmp_path / name, "--output", tmp_path / "other", *PUT_ASIDE, "--max-bad", 1) == 0
    assert Output(tmp_path / "other").quarantined()[0]["file"] == name
