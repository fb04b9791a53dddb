"""Many small files share parts: nothing is lost or different by that, and each row keeps its file and number."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet
from tests.batch.test_exactly_once import OPTIONS, kill_until

FILES = 100
ROWS = 3
LINES = [texts(FILES * ROWS)[first : first + ROWS] for first in range(0, FILES * ROWS, ROWS)]
BAD, EMPTY = 7, 9  # the file whose rows are bad, and that without rows


@pytest.fixture(params=["jsonl", "parquet"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder of many files."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        path = source / f"{number:03d}.{request.param}"
        if number == BAD:
            write_jsonl(path, [1]) if request.param == "jsonl" else write_parquet(path, [None])
        else:
            write = write_jsonl if request.param == "jsonl" else write_parquet
            write(path, [] if number == EMPTY else LINES[number])
    return source


def test_rows_keep_their_file_and_number_in_few_parts_of_all_shards(job, folder, out):
    arguments = ("--input", folder, "--output", out.path, "--keep", "id,text", "--on-error", "quarantine")
    for index in (2, 0, 1):
        assert not out.complete
        before = len(list(out.path.glob("_parts/*.parquet")))
        assert job(*arguments, "--max-bad", 1, "--shard", f"{index}/3") == 0
        assert len(list(out.path.glob("*/part-*.parquet"))) - before >= 8, "a shard has hardly any work"
    names = sorted(path.name for path in folder.iterdir())
    good = [number for number in range(FILES) if number not in (BAD, EMPTY)]
    wanted = [(names[number], row, row, text) for number in good for row, text in enumerate(LINES[number])]
    assert [(row["file"], row["row"], row["id"], row["text"]) for row in out.rows()] == wanted
    assert {row["file"] for row in out.quarantined()} == {names[BAD]}
    parts = out.read_json("_manifest.json")["parts"]
    assert 24 <= len(parts) <= FILES // 2, "small files do not share parts"
    assert [name for part in parts for name in part["files"]] == names


def test_few_files_and_large_ones_have_their_own_parts(job, tmp_path, out):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        write_jsonl(source / f"{number:03d}.jsonl", ["a"])
    write_parquet(source / "large.parquet", ["word " * 100] * 2000)
    assert job("--input", source, "--output", out.path) == 0
    assert [part["files"][0] for part in out.read_json("_manifest.json")["parts"]] == ["000.jsonl", "large.parquet"]
    few = Output(tmp_path / "few")
    assert job("--input", *sorted(source.glob("00*")), "--output", few.path) == 0
    assert len(few.read_json("_manifest.json")["parts"]) == 10


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("folder", ["jsonl"], indirect=True)
def test_the_same_bytes_after_kills(job, folder, tmp_path, number):
    whole = Output(tmp_path / "whole")
    assert job("--input", folder, "--output", whole.path, *OPTIONS) == 0
    kill_until(job, folder, whole, tmp_path, number, stops=3)
