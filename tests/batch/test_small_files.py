"""Many small files share parts: nothing is lost or different by that, and each row keeps its file and number."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet
from tests.batch.test_exactly_once import OPTIONS, kill_until

FILES = 100
ROWS = 3
QUARANTINE = ("--on-error", "quarantine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of many files; the third row of the eighth is bad, and the tenth file is empty."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        lines = texts(FILES * ROWS)[number * ROWS : (number + 1) * ROWS]
        write_jsonl(source / f"{number:03d}.jsonl", lines)
    (source / "007.jsonl").write_text('{"id": 0, "text": "a"}\n\n{"text": 1}\n{"id": 3, "text": "b"}\n')
    (source / "009.jsonl").write_text("")
    return source


def expected(source: Path) -> list[tuple[str, int, str]]:
    """Return file, row and text of all good rows."""
    found = []
    for path in sorted(source.iterdir()):
        for row, line in enumerate(path.read_text().splitlines()):
            text = json.loads(line)["text"] if line else None
            found += [(path.name, row, text)] if isinstance(text, str) else []
    return found


def rows_of(out: Output) -> list[tuple[str, int, str]]:
    """Return file, row and text of the result."""
    return [(row["file"], row["row"], row["text"]) for row in out.rows()]


def parts_of(out: Output) -> list[dict[str, Any]]:
    """Return the parts that the manifest lists."""
    found: list[dict[str, Any]] = out.read_json("_manifest.json")["parts"]
    return found


def test_rows_keep_their_file_and_number_in_few_parts(job, folder, out):
    assert job("--input", folder, "--output", out.path, *QUARANTINE) == 0
    assert rows_of(out) == expected(folder)
    parts = parts_of(out)
    assert 8 <= len(parts) <= FILES // 4, "small files do not share parts"
    named = [name for part in parts for name in part["files"]]
    assert named == sorted(path.name for path in folder.iterdir())


def test_few_files_and_large_ones_have_their_own_parts(job, tmp_path, out):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        write_jsonl(source / f"{number:03d}.jsonl", ["a"])
    write_parquet(source / "large.parquet", ["word " * 100] * 2000)
    assert job("--input", source, "--output", out.path) == 0
    assert [part["files"][0] for part in parts_of(out)] == ["000.jsonl", "large.parquet"]
    few = Output(tmp_path / "few")
    assert job("--input", *sorted(source.glob("00*")), "--output", few.path) == 0
    assert len(parts_of(few)) == 10


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Return a folder of many Parquet files: the eighth holds fractions, the tenth is empty, the twelfth is none."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        ids = [number * ROWS + n + 0.5 * (number == 7) for n in range(ROWS)]
        table = pa.table({"id": ids if number == 7 else list(map(int, ids)), "text": [f"t{n}" for n in ids]})
        pq.write_table(table.slice(0, 0) if number == 9 else table, source / f"{number:03d}.parquet")
    (source / "011.parquet").write_bytes(b"PAR1 no table PAR1")
    return source


def test_parquet_files_share_parts(job, tables, out):
    arguments = ("--input", tables, "--output", out.path, "--keep", "id,text", *QUARANTINE)
    assert job(*arguments, "--max-bad", 1) == 0
    there = [n for n in range(FILES) if n not in (9, 11)]
    wanted = [(f"{n:03d}.parquet", row, n * ROWS + row + 0.5 * (n == 7)) for n in there for row in range(ROWS)]
    assert [(row["file"], row["row"], row["id"]) for row in out.rows()] == wanted
    assert [(bad["file"], bad["row"]) for bad in out.quarantined()] == [("011.parquet", 0)]
    parts = parts_of(out)
    assert 8 <= len(parts) <= FILES // 4, "small Parquet files do not share parts"
    named = [name for part in parts for name in part["files"]]
    assert named == sorted(path.name for path in tables.iterdir())


def test_shards_share_the_work_and_the_last_one_publishes(job, folder, tmp_path, out):
    whole = Output(tmp_path / "whole")
    arguments = ("--input", folder, *QUARANTINE)
    for index in (2, 0, 1):
        assert not out.complete
        assert job(*arguments, "--output", out.path, "--shard", f"{index}/3") == 0
        runs = [json.loads(path.read_text()) for path in (out.path / "_runs").iterdir()]
        assert all(run["rows"] > FILES * ROWS // 10 for run in runs), "a shard has hardly any work"
    assert job(*arguments, "--output", whole.path) == 0
    assert out.rows() == whole.rows()
    assert out.quarantined() == whole.quarantined()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_same_bytes_after_kills(job, folder, tmp_path, number):
    whole = Output(tmp_path / "whole")
    assert job("--input", folder, "--output", whole.path, *OPTIONS) == 0
    kill_until(job, folder, whole, tmp_path, number, stops=3)
