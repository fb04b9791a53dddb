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
    "a long line in quotes before others": (b'text,k\n"' + LONG + b'",1\n"b",2\nc,3\n', ["b", "c"], [0]),
    "many short lines": (b'text\nok\n"' + b"c\n" * 600 + b'"\nb\n', ["ok", "b"], [1]),
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


def test_a_number_of_an_input_that_no_double_holds(made, tmp_path, out):
    (tmp_path / "a.jsonl").write_text('{"age": 1, "weight": 1e400}\n{"age": 1, "weight": Infinity}\n')
    assert made(TABLE)("--input", tmp_path / "a.jsonl", "--output", out.path, *PUT_ASIDE) == 0
    assert [row["row"] for row in out.quarantined()] == [0]


@pytest.mark.parametrize("encoding", sampled(["utf-16", "utf-16-le", "utf-16-be"], ["utf-16"]))
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.jsonl.gz"])
def test_utf_16_is_refused(job, tmp_path, out, capsys, name, encoding):
    content = "".join(f'{{"text": "row {n}"}}\n' for n in range(30)).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert job("--input", tmp_path / name, "--output", out.path, "--on-error", "skip", "--max-bad", 1) == 65
    assert "is UTF-16" in capsys.readouterr().err


WHOLE = gzip.compress("".join(f"{line}\n" for line in texts(100)).encode())
MIDDLE = len(WHOLE) // 2
BROKEN = {
    "a.txt.gz": b"plain\n",
    "b.jsonl.gz": gzip.compress(b'{"text": "x"}\n')[:-3] + b"xyz",
    "c.jsonl.zst": b"no zstd at all",
    "d.csv.gz": gzip.compress(b"text\nx\n")[:9],
    "e.txt.gz": WHOLE[:MIDDLE] + bytes([WHOLE[MIDDLE] ^ 0xFF]) + WHOLE[MIDDLE + 1 :],
}


@pytest.mark.parametrize("name", BROKEN)
def test_no_row_comes_from_a_broken_archive(job, tmp_path, out, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    write_jsonl(tmp_path / "0.jsonl", ["fine"])
    assert job("--input", tmp_path / name, "--output", tmp_path / "alone") == 65
    assert job("--input", tmp_path / "*.*", "--output", out.path, *PUT_ASIDE, "--max-bad", 1) == 0
    assert [row["text"] for row in out.rows()] == ["fine"]
    assert [row["file"] for row in out.quarantined()] == [name]


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
