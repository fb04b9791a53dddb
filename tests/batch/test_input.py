"""What can be read, and what becomes of input that is wrong."""

from __future__ import annotations

import bz2
import csv
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet
from tests.sampling import sampled

LINES = [*texts(120), 'with "quotes", commas\tand tabs', "", "Gruß aus Köln 🙂"]


def write(path: Path) -> Path:
    """Write LINES in the format that the name tells."""
    kind = path.name.split(".")[1]
    if kind == "parquet":
        return write_parquet(path, LINES, 50)
    if kind == "jsonl":
        write_jsonl(path.with_name("plain.jsonl"), LINES)
        content = path.with_name("plain.jsonl").read_bytes()
    elif kind == "txt":
        content = "".join(line + "\n" for line in LINES).encode()
    else:
        with path.with_name("plain.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([["id", "text"], *enumerate(LINES)])
        content = path.with_name("plain.csv").read_bytes()
    for suffix, compress in (("gz", gzip.compress), ("bz2", bz2.compress), ("zst", pa.Codec("zstd").compress)):
        if path.name.endswith(suffix):
            content = compress(content)
            content = content if isinstance(content, bytes) else content.to_pybytes()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.jsonl", "a.csv", "a.tsv", "a.txt", "a.jsonl.gz", "a.csv.bz2", "a.txt.zst"]
)
def test_all_formats_give_the_same_and_resume_in_the_middle(job, tmp_path, out, name):
    """The first start leaves every second part out, as another shard's, so that the next has to find its place."""
    source = write(tmp_path / name)
    for shard in ("0/3", "2/3", "0/3", "1/3"):
        assert job("--input", source, "--output", out.path, "--part-rows", 7, "--shard", shard) == 0
    assert [(r["file"], r["row"], r["text"]) for r in out.rows()] == [(name, n, t) for n, t in enumerate(LINES)]
    assert all(row["label"] == f"{len(row['text'])} characters" for row in out.rows())


def test_folders_wildcards_and_several_inputs(job, tmp_path, out):
    for name in ("x/1.jsonl", "x/y/2.jsonl", "z/1.jsonl", "x/_hidden/3.jsonl", "x/.4.jsonl", "x/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(tmp_path / name, [name])
    cases = {
        ("x",): ["1.jsonl", "y/2.jsonl"],
        ("x/*.jsonl",): ["1.jsonl"],
        ("**/[12].jsonl",): ["x/1.jsonl", "x/y/2.jsonl", "z/1.jsonl"],
        ("x/y", "z"): ["1.jsonl", "2.jsonl"],
    }
    for number, (inputs, names) in enumerate(cases.items()):
        output = Output(tmp_path / f"out-{number}")
        assert job("--input", *(tmp_path / i for i in inputs), "--output", output.path) == 0
        assert [row["file"] for row in output.rows()] == names, inputs
    clash = Output(tmp_path / "out-clash")
    assert job("--input", tmp_path / "x/1.jsonl", tmp_path / "z/1.jsonl", "--output", clash.path) == 0
    assert [row["file"] for row in clash.rows()] == [f"{tmp_path}/x/1.jsonl", f"{tmp_path}/z/1.jsonl"]


def test_kept_columns_keep_their_types(job, tmp_path, out):
    table = pa.table({"body": ["a", "b"], "n": pa.array([1, 2], pa.int8()), "when": pa.array([1, 2], pa.timestamp("s")),
                      "kind": pa.array(["x", "y"]).dictionary_encode()})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    options = ("--column", "body", "--keep", "n,when,kind")
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    schema = pq.read_schema(out.path / "data" / "part-00000-000000.parquet")
    assert schema.names == ["file", "row", "n", "when", "kind", "label", "score"]
    assert [str(schema.field(n).type) for n in ("n", "when", "kind")] == ["int8", "timestamp[ms]", "string"]


@pytest.mark.parametrize("name", sampled(["a.txt", "a.jsonl", "a.csv", "a.parquet"], ["a.jsonl"]))
def test_empty_input_gives_an_empty_result_with_its_columns(job, tmp_path, out, name):
    if name.endswith("parquet"):
        write_parquet(tmp_path / name, [])
    else:
        (tmp_path / name).write_text("id,text\n" if name.endswith("csv") else "")
    assert job("--input", tmp_path / name, "--output", out.path) == 0
    assert out.rows() == []
    assert pq.read_table(out.path / "data").column_names == ["file", "row", "text", "label", "score"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (pa.table({"body": ["x"]}), "b.parquet: no column 'text'; there are body"),
        (pa.table({"text": [1], "id": [1]}), "b.parquet: column 'text' holds int64, the model needs text"),
        (pa.table({"text": ["x"], "other": [7]}), "b.parquet: no column 'id'"),
    ],
)
def test_a_schema_that_changes_between_parquet_files(job, tmp_path, out, capsys, second, said):
    write_parquet(tmp_path / "a.parquet", ["fine"])
    pq.write_table(second, tmp_path / "b.parquet")
    assert job("--input", tmp_path / "*.parquet", "--output", out.path, "--keep", "id,text", "--on-error", "skip") == 65
    assert said in capsys.readouterr().err
