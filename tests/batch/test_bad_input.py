"""Input that is damaged, foreign, too long or not there: what it costs, and what is said."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet
from tests.sampling import every, sampled

BAD_LINES = {
    "broken UTF-8": (b'{"text": "\xff\xfe"}', "UTF-8"),
    "not JSON": (b'{"text": "half', "not JSON"),
    "two objects": (b'{"text": "a"}{"text": "b"}', "not JSON"),
    "a list": (b"[1]", "expected a JSON object"),
    "a number": (b'{"text": 5}', "needs text"),
    "null": (b'{"text": null}', "no value"),
    "no such key": (b'{"txt": "a"}', "no value"),
    "half a character": (b'{"text": "\\ud800"}', "not UTF-8"),
    "100 MB": (b'{"text": "' + b"x" * 100_000_000 + b'"}', "more than 16777216 bytes"),
    "deep": (b"[" * 100_000, "JSON"),
    "fails in the model": (b'{"text": "RAISE"}', "ValueError: this text cannot be: RAISE"),
}


@pytest.mark.parametrize("case", sampled(BAD_LINES, every(3)))
def test_a_bad_line_among_good_ones(job, tmp_path, out, case, capsys):
    line, reason = BAD_LINES[case]
    source = tmp_path / "a.jsonl"
    source.write_bytes(b'{"text": "before"}\n\n' + line + b'\n{"text": "after"}')
    assert job("--input", source, "--output", tmp_path / "strict") == 65
    said = capsys.readouterr().err
    assert "a.jsonl, row 2:" in said
    assert reason in said
    assert job("--input", source, "--output", out.path, "--on-error", "quarantine", "--max-bad", 0.5) == 0
    assert [(row["row"], row["text"]) for row in out.rows()] == [(0, "before"), (3, "after")]
    [bad] = out.quarantined()
    assert (bad["file"], bad["row"]) == ("a.jsonl", 2)
    assert reason in bad["reason"]
    assert out.read_json("_manifest.json")["bad"] == 1


KEPT = {
    "a.csv": b"id,age,text\n7,1,fine\n8,many,fine\n9,1,RAISE\n",
    "a.jsonl": b'{"id": 7, "age": 1, "text": "fine"}\n{"id": 8, "age": 1, "text": null}\n'
    b'{"id": 9, "age": 1, "text": "RAISE"}\n',
    "a.parquet": pa.table({"id": [7, 8, 9], "age": [1, 1, 1], "text": ["fine", None, "RAISE"]}),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_bad_row_is_put_aside_with_its_kept_columns(job, tmp_path, out, name):
    path, content = tmp_path / name, KEPT[name]
    path.write_bytes(content) if isinstance(content, bytes) else pq.write_table(content, path)
    options = ("--keep", "id,age", "--types", "age=int64", "--on-error", "quarantine", "--max-bad", 1)
    assert job("--input", path, "--output", out.path, *options) == 0
    assert [row["id"] for row in out.quarantined()] == [8, 9]
    assert [row["id"] for row in out.rows()] == [7]


def test_quotes_of_csv_are_others_or_a_part_of_the_text(job, tmp_path, out):
    (tmp_path / "a.tsv").write_text("text\tid\nsays \"no\t1\n\"x\t2\n'y'\t3\n")
    for quote, texts_found in (("none", ['says "no', '"x', "'y'"]), ("'", ['says "no', '"x', "y"])):
        own = Output(tmp_path / quote)
        assert job("--input", tmp_path / "a.tsv", "--output", own.path, "--keep", "text", "--quote", quote) == 0
        assert [row["text"] for row in own.rows()] == texts_found
    assert job("--input", tmp_path / "a.tsv", "--output", out.path) == 65


def test_bad_rows_of_csv(job, tmp_path, out):
    source = tmp_path / "a.csv"
    source.write_bytes(b'\xef\xbb\xbfid,text\n1,one\n2\n3,"three\nlines",\n4,\xff\n\n5,"fi\nve"\n6,six')
    assert job("--input", source, "--output", out.path, "--on-error", "quarantine", "--max-bad", 1, "--keep", "id") == 0
    assert [(row["row"], row["id"]) for row in out.rows()] == [(0, 1), (4, 5), (5, 6)]
    assert [(row["row"], row["reason"]) for row in out.quarantined()] == [
        (1, "1 fields where the header has 2"),
        (2, "3 fields where the header has 2"),
        (3, "column 'text' is not UTF-8: --encoding names another"),
    ]


@pytest.mark.parametrize("name", ["_SUCCESS", "data/other.parquet"])
def test_the_output_of_another_program_is_not_taken_for_ours(job, tmp_path, out, capsys, name):
    (out.path / name).parent.mkdir(parents=True)
    (out.path / name).write_text("")
    arguments = ("--input", write_jsonl(tmp_path / "a.jsonl", ["x"]), "--output", out.path)
    assert job(*arguments) == 78
    assert "no _plan.json of this job" in capsys.readouterr().err
    (out.path / name).unlink()
    assert job(*arguments) == 0


def test_a_truncated_parquet_file_and_a_damaged_row_group(job, tmp_path, out, capsys):
    source = tmp_path / "in"
    source.mkdir()
    write_parquet(source / "good.parquet", texts(50))
    write_parquet(source / "half.parquet", texts(50))
    whole = (source / "half.parquet").read_bytes()
    (source / "half.parquet").write_bytes(whole[: len(whole) // 2])
    write_parquet(source / "hole.parquet", texts(50), 25)
    start = pq.ParquetFile(source / "hole.parquet").metadata.row_group(1).column(1).data_page_offset
    content = bytearray((source / "hole.parquet").read_bytes())
    content[start : start + 60] = b"\xff" * 60
    (source / "hole.parquet").write_bytes(content)
    options = ("--on-error", "quarantine", "--max-bad", 0.9, "--part-rows", 10)
    assert job("--input", source, "--output", out.path, *options) == 65
    assert "half.parquet: the file cannot be read: " in capsys.readouterr().err
    assert not out.path.exists(), "before anything is done"
    (source / "half.parquet").unlink()
    assert job("--input", source, "--output", out.path, *options) == 0
    names = [row["file"] for row in out.rows()]
    assert (names.count("good.parquet"), names.count("hole.parquet")) == (50, 25)
    assert [row["row"] for row in out.quarantined()] == [*range(25, 50)]


def test_a_truncated_archive_keeps_what_came_before(job, tmp_path, out, capsys):
    lines = [os.urandom(20).hex() for _ in range(20_000)]
    whole = gzip.compress("".join(line + "\n" for line in lines).encode())
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    options = ("--on-error", "quarantine", "--part-rows", 1000)
    assert job("--input", tmp_path / "a.txt.gz", "--output", tmp_path / "strict", *options, "--max-bad", 0.99) == 65
    assert "--max-bad 1 continues without them" in capsys.readouterr().err
    assert job("--input", tmp_path / "a.txt.gz", "--output", out.path, *options, "--max-bad", 1) == 0
    assert "left out: a.txt.gz, row " in capsys.readouterr().err
    rows = [row["text"] for row in out.rows()]
    assert len(rows) >= 1000
    assert rows == lines[: len(rows)]
    [bad] = out.quarantined()
    assert bad["row"] == len(rows)
    assert bad["reason"].startswith("an unknown number of rows, at least 1: the file cannot be read from here on")


@pytest.mark.slow
def test_parquet_rows_that_the_file_holds_once_are_as_large_in_a_part(job, tmp_path, out):
    """A dictionary: the file is small, and 300 rows of 100 kB are not one part."""
    lines = [f"{number % 3}" * 100_000 for number in range(300)]
    pq.write_table(pa.table({"text": lines}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 20
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--part-bytes", 4 << 20) == 0
    parts = [part["rows"] for part in out.read_json("_manifest.json")["parts"]]
    assert sum(parts) == 300
    assert max(parts) * 100_000 <= 4 << 20, parts
