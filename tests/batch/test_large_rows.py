"""Rows of many bytes: --part-bytes and --max-row-bytes hold for them, and so does a run's memory."""

from __future__ import annotations

import base64
import decimal
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Job, write_jsonl
from tests.batch.test_memory import peak

PUT_ASIDE = ("--on-error", "quarantine", "--max-bad", 1)
MIB = 1 << 20


def groups_of(path: Path, *groups: pa.Table) -> Path:
    """Write a Parquet file of these row groups."""
    with pq.ParquetWriter(path, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=len(group))
    return path


def test_each_row_group_is_cut_by_its_own_rows(job, tmp_path, out):
    small = pa.table({"text": [f"row {n}" for n in range(5000)]})
    large = pa.table({"text": [f"{n} " + "x" * 50_000 for n in range(100)]})
    source = groups_of(tmp_path / "a.parquet", small, large, small)
    assert job("--input", source, "--output", out.path, "--part-bytes", MIB) == 0
    sizes = [
        sum(len(text) for text in pq.read_table(part)["text"].to_pylist())
        for part in sorted((out.path / "data").iterdir())
    ]
    assert max(sizes) <= MIB, "a part is larger than --part-bytes"
    assert len(sizes) < 12, "small rows are cut as large ones are"
    rows = out.rows()
    assert [row["row"] for row in rows] == list(range(10_100))
    assert [row["text"] for row in rows] == [
        text for group in (small, large, small) for text in group["text"].to_pylist()
    ]


def test_columns_that_are_not_read_make_no_part_smaller(job, tmp_path, out):
    table = pa.table({"text": [f"row {n}" for n in range(400)], "scan": [f"{n}" * 20_000 for n in range(400)]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, "--part-bytes", MIB) == 0
    assert len(list((out.path / "data").iterdir())) == 1


@pytest.mark.parametrize("shards", [1, 3])
def test_parts_of_uneven_groups_are_each_done_once(job, tmp_path, out, shards):
    groups = [
        pa.table({"text": [f"{group} {n} " + "y" * (group % 3 * 2000) for n in range(37 * (group + 1))]})
        for group in range(6)
    ]
    source = groups_of(tmp_path / "a.parquet", *groups)
    options = ("--part-bytes", 30_000, "--part-rows", 50)
    for shard in range(shards):
        assert job("--input", source, "--output", out.path, *options, "--shard", f"{shard}/{shards}") == 0
    assert [row["text"] for row in out.rows()] == [text for group in groups for text in group["text"].to_pylist()]


NESTED = {
    "text": ["short", "x" * 3000, "short"],
    "list": [["a"], ["b" * 1500, "c" * 1500], None],
    "object": [{"deep": {"bytes": b"a"}}, {"deep": {"bytes": b"a" * 3000}}, {"deep": None}],
    "floats": [[0.5], [0.5] * 1000, []],
}


@pytest.mark.parametrize("where", NESTED)
def test_a_row_is_too_large_wherever_its_bytes_are(job, tmp_path, out, where):
    columns = {"text": ["one", "two", "three"]} | {where: NESTED[where]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    options = ("--keep", ",".join(columns), "--max-row-bytes", 2000, *PUT_ASIDE)
    assert job("--input", tmp_path / "a.parquet", "--output", out.path, *options) == 0
    assert [bad["row"] for bad in out.quarantined()] == [1], where
    assert "more than --max-row-bytes" in out.quarantined()[0]["reason"]
    assert [row["row"] for row in out.rows()] == [0, 2]


SIZED = {
    "text": (pa.array(["a", None, "äöü", ""]), [1, 0, 6, 0]),
    "view": (pa.array(["a", None, "a text that is a longer one"], pa.string_view()), [1, 0, 27]),
    "words": (pa.array(["aa", "b", None, "aa"]).dictionary_encode(), [2, 1, 0, 2]),
    "lists": (pa.array([["aa", "b"], None, [], [None, "c"]]), [3, 0, 0, 1]),
    "pairs": (pa.array([["aa", "b"], ["c", "dddd"]], pa.list_(pa.string(), 2)), [3, 5]),
    "map": (pa.array([[("k", "vv")], [], [("a", "b"), ("c", None)]], pa.map_(pa.string(), pa.string())), [3, 0, 3]),
    "object": (pa.array([{"a": b"xy", "b": ["z"]}, None, {"a": None, "b": ["u", "v"]}]), [3, 0, 2]),
    "numbers": (pa.array([[1.0], [1.0, 2.0], []]), [8, 16, 0]),
    "decimal": (pa.array([decimal.Decimal("1.5"), None], pa.decimal128(5, 1)), [16, 16]),
}


def test_pages_of_the_result_are_small(job, tmp_path, out):
    """Whoever reads a page has all of it in memory; pyarrow would make one of 1,024 rows."""
    texts = [base64.b64encode(np.random.default_rng(n).bytes(60_000)).decode() for n in range(100)]
    source = write_jsonl(tmp_path / "a.jsonl", texts)
    assert job("--input", source, "--output", out.path) == 0
    [part] = (out.path / "data").iterdir()
    reader = pq.ParquetFile(part, pre_buffer=False, buffer_size=MIB)
    before = pa.total_allocated_bytes()
    first = next(reader.iter_batches(4, columns=["text"]))
    assert first["text"].to_pylist() == texts[:4]
    assert pa.total_allocated_bytes() - before < 5 * MIB


IMAGES = """
from gpu_repo_runtime.inputs import Bytes
from pydantic import BaseModel


class Input(BaseModel):
    image: Bytes


class Model:
    examples = (Input(image=b"a"),)
    tolerance = 0.0

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[Input]) -> list[dict]:
        return [{"size": len(one.image)} for one in batch]
"""
PART = 8 * MIB
ROWS = 1000
# What three parts of 8 MiB need, with what is made of them meanwhile and what the allocators keep; no more than a third
# of what all rows would need.
MOST = 260 * MIB


def write_large(kind: str, path: Path, count: int) -> Path:
    """Write rows of 150 kB that cannot be made smaller, in text formats as base64; in Parquet with small pages."""
    rows = [np.random.default_rng(n).bytes(112_500) for n in range(count)]
    texts = [base64.b64encode(row).decode() for row in rows]
    if kind == "images":
        pq.write_table(pa.table({"image": rows}), path.with_suffix(".parquet"), write_batch_size=4)
    elif kind == "parquet":
        pq.write_table(pa.table({"text": texts}), path.with_suffix(".parquet"), write_batch_size=4)
    elif kind == "csv":
        path.with_suffix(".csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    else:
        write_jsonl(path.with_suffix(".jsonl"), texts)
    [found] = path.parent.glob(f"{path.name}.*")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv", "images"])
def test_memory_is_that_of_some_parts(job, tmp_path, kind):
    own = job
    if kind == "images":
        own = Job(tmp_path / "child")
        package = own.child / "src" / job.package
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "model.py").write_text(IMAGES)
        (package / "job").mkdir()
        way = job.child / "src" / job.package / "job" / "__init__.py"
        (package / "job" / "__init__.py").write_text(way.read_text())
    options = ("--part-bytes", PART, "--on-error", "fail")
    needed = {
        count: peak(own, write_large(kind, tmp_path / f"rows-{count}", count), tmp_path / f"out-{count}", *options)
        for count in (1, ROWS)
    }
    more = (needed[ROWS] - needed[1]) * 1024
    assert more <= MOST, f"{kind}: {needed} KiB for 1 and {ROWS} rows"
    done = json.loads((tmp_path / f"out-{ROWS}" / "_manifest.json").read_text())
    assert done["written"] == ROWS
