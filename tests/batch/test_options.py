"""Options for a trial of the first rows, for CSV as others write it, and for going on in another mode."""

from __future__ import annotations

import json

import pytest

from tests.batch.conftest import Output, texts
from tests.batch.made import write
from tests.sampling import sampled


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("limit", sampled([1, 4, 10, 13, 20, 99], [4, 13]))
@pytest.mark.parametrize("part_rows", sampled([3, 100], [3]))
def test_the_first_rows_alone(job, tmp_path, out, kind, limit, part_rows):
    lines = texts(20)
    (tmp_path / "in").mkdir()
    for number in (0, 10):
        write(tmp_path / "in" / f"{number:02d}.{kind}", [{"text": text} for text in lines[number : number + 10]])
    arguments = ("--input", tmp_path / "in", "--output", out.path, "--limit", limit, "--part-rows", part_rows)
    for shard in ("0/2", "1/2"):
        assert job(*arguments, "--shard", shard) == 0
    assert [row["text"] for row in out.rows()] == lines[:limit]


def test_a_bad_row_behind_the_first_ones_does_not_matter(job, tmp_path, out):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\nno JSON\n')
    assert job("--input", tmp_path / "a.jsonl", "--output", out.path, "--limit", 2) == 0
    assert [row["text"] for row in out.rows()] == ["a", "b"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "shift-jis"])
@pytest.mark.parametrize("delimiter", sampled([";", "|", "\\t"], [";"]))
def test_csv_as_others_write_it(job, tmp_path, out, encoding, delimiter):
    lines = ["Grüße" if encoding != "shift-jis" else "日本", "a,b", "x" * 5000] * 20
    between = "\t" if delimiter == "\\t" else delimiter
    content = f"id{between}text\n" + "".join(f'{n}{between}"{line}"\n' for n, line in enumerate(lines))
    (tmp_path / "a.csv").write_bytes(content.encode(encoding))
    options = ("--delimiter", delimiter, "--encoding", encoding, "--keep", "id,text", "--part-rows", 7)
    for shard in ("1/2", "0/2"):
        assert job("--input", tmp_path / "a.csv", "--output", out.path, *options, "--shard", shard) == 0
    assert [(row["id"], row["text"]) for row in out.rows()] == list(enumerate(lines))


def test_a_run_that_failed_on_bad_rows_goes_on_with_quarantine(job, tmp_path, out, capsys):
    rows = [json.dumps({"text": text}) for text in texts(60)]
    rows[33] = "no JSON"
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    arguments = ("--input", tmp_path / "a.jsonl", "--output", out.path, "--part-rows", 10)
    assert job(*arguments) == 65
    assert job(*arguments, "--on-error", "quarantine") == 0
    assert "resuming: 3 parts are done" in capsys.readouterr().err
    whole = Output(tmp_path / "whole")
    assert (
        job("--input", tmp_path / "a.jsonl", "--output", whole.path, "--part-rows", 10, "--on-error", "quarantine") == 0
    )
    assert out.digest() == whole.digest()
    assert out.read_json("_plan.json")["on_error"] == "quarantine"
    assert job(*arguments, "--on-error", "skip") == 78, "what is in quarantine stays there"
