"""Many small files share parts: nothing is lost or different by that, and each row keeps its file and number."""

from __future__ import annotations

import gzip
import json
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import Output, texts, write_jsonl, write_parquet
from tests.sampling import every, sampled

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


def test_a_bad_row_is_that_of_its_file(job, folder, out, capsys):
    assert job("--input", folder, "--output", out.path) == 65
    assert "007.jsonl, row 2: " in capsys.readouterr().err
    assert job("--input", folder, "--output", out.path, *QUARANTINE) == 0
    (bad,) = out.quarantined()
    assert (bad["file"], bad["row"], bad["raw"]) == ("007.jsonl", 2, b'{"text": 1}')


def test_a_text_that_the_model_refuses_is_that_of_its_file(job, folder, out):
    write_jsonl(folder / "055.jsonl", ["fine", "RAISE"])
    assert job("--input", folder, "--output", out.path, *QUARANTINE) == 0
    assert [(bad["file"], bad["row"]) for bad in out.quarantined()] == [("007.jsonl", 2), ("055.jsonl", 1)]
    assert rows_of(out) == [row for row in expected(folder) if row[2] != "RAISE"]


@pytest.mark.slow
def test_the_end_of_a_cut_archive_is_that_of_its_file(job, tmp_path, out):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        content = gzip.compress(f'{{"text": "number {number}"}}\n'.encode())
        (source / f"{number:03d}.jsonl.gz").write_bytes(content[:-12] if number == 40 else content)
    assert job("--input", source, "--output", out.path, *QUARANTINE, "--max-bad", 1) == 0
    assert [bad["file"] for bad in out.quarantined()] == ["040.jsonl.gz"]
    assert [(file, row) for file, row, _ in rows_of(out)] == [
        (f"{number:03d}.jsonl.gz", 0) for number in range(FILES) if number != 40
    ]


@pytest.mark.parametrize("form", sampled(["csv", "txt"], ["csv"]))
def test_other_text_files(job, tmp_path, out, form):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        header = "" if form == "txt" else "text,id\n" if number % 2 else "id,text\n"
        row = f"t{number}" if form == "txt" else f"t{number},{number}" if number % 2 else f"{number},t{number}"
        (source / f"{number:03d}.{form}").write_text(f"{header}{row}\n")
    assert job("--input", source, "--output", out.path) == 0
    assert rows_of(out) == [(f"{number:03d}.{form}", 0, f"t{number}") for number in range(FILES)]
    assert len(parts_of(out)) < FILES


def test_folders_are_columns_of_their_files(job, tmp_path, out):
    for number in range(FILES):
        (tmp_path / "in" / f"day={number:03d}").mkdir(parents=True)
        write_jsonl(tmp_path / "in" / f"day={number:03d}" / "a.jsonl", [f"t{number}"])
    assert job("--input", tmp_path / "in", "--output", out.path, "--keep", "day,text") == 0
    assert [(row["day"], row["text"]) for row in out.rows()] == [(f"{n:03d}", f"t{n}") for n in range(FILES)]
    assert len(parts_of(out)) < FILES


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


def write_repeated(folder: Path) -> Path:
    """Write many Parquet files whose few bytes hold 500 rows each."""
    folder.mkdir()
    for number in range(FILES):
        pq.write_table(pa.table({"text": [f"text of file {number}"] * 500}), folder / f"{number:03d}.parquet")
    return folder


@pytest.mark.parametrize(
    ("limit", "most"), sampled([(("--part-rows", 1200), 1200), (("--part-bytes", 20_000), 800)], every(2))
)
def test_limits_hold_for_small_files_of_many_rows(job, tmp_path, out, limit, most):
    source = write_repeated(tmp_path / "in")
    assert job("--input", source, "--output", out.path, *limit) == 0
    assert max(part["rows"] for part in parts_of(out)) <= most
    wanted = [(f"{n:03d}.parquet", row, f"text of file {n}") for n in range(FILES) for row in range(500)]
    assert rows_of(out) == wanted


@pytest.mark.slow
def test_limits_hold_for_small_archives_of_many_lines(job, tmp_path, out):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        content = "".join(f'{{"text": "line {row}"}}\n' for row in range(300))
        (source / f"{number:03d}.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    assert job("--input", source, "--output", out.path, "--part-rows", 1000) == 0
    assert max(part["rows"] for part in parts_of(out)) <= 1000
    wanted = [(f"{n:03d}.jsonl.gz", row, f"line {row}") for n in range(FILES) for row in range(300)]
    assert rows_of(out) == wanted


@pytest.mark.slow
def test_shards_and_damage_where_small_files_have_several_parts(job, tmp_path, out):
    source = write_repeated(tmp_path / "in")
    arguments = ("--input", source, "--part-rows", 1200)
    whole = Output(tmp_path / "whole")
    assert job(*arguments, "--output", whole.path, "--shard", "0/1") == 0
    for index in (2, 0, 1):
        assert job(*arguments, "--output", out.path, "--shard", f"{index}/3") == 0
    assert out.rows() == whole.rows()
    before = out.digest()
    several = next(part for part in parts_of(out) if part["index"] == 1)
    (out.path / "data" / f"part-{several['unit']:05d}-000001.parquet").unlink()
    assert job(*arguments, "--output", out.path, "--shard", f"{several['unit'] % 3}/3") == 0
    assert out.digest() == before


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
def test_merge_says_what_is_missing_and_publishes(job, folder, out, capsys, monkeypatch):
    arguments = ("--input", folder, "--output", out.path, *QUARANTINE)
    assert job(*arguments, "--shard", "0/2") == 0
    assert job.main("merge", "--output", out.path) == 1
    assert "the end of file 1" in capsys.readouterr().err
    monkeypatch.setattr(job.module("job"), "_publish", lambda *_: None)
    assert job(*arguments, "--shard", "1/2") == 0
    monkeypatch.undo()
    assert job.main("merge", "--output", out.path) == 0
    assert rows_of(out) == expected(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_same_bytes_after_kills(job, folder, tmp_path, out, number):
    whole = Output(tmp_path / "whole")
    arguments = ("--input", folder, *QUARANTINE, "--batch-size", 4)
    assert job(*arguments, "--output", whole.path) == 0
    for _ in range(3):
        process = job.start(*arguments, "--output", out.path, SLOW="0.05")
        done = len(list((out.path / "_parts").glob("*.parquet")))
        while len(list((out.path / "_parts").glob("*.parquet"))) < done + 2 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode != 0
    assert job(*arguments, "--output", out.path) == 0
    assert out.digest() == whole.digest()


@pytest.mark.slow
def test_a_part_that_was_deleted_is_made_anew(job, folder, tmp_path, out):
    arguments = ("--input", folder, "--output", out.path, *QUARANTINE)
    assert job(*arguments) == 0
    before = out.digest()
    (out.path / "data" / "part-00003-000000.parquet").unlink()
    assert job(*arguments) == 0
    assert out.digest() == before


@pytest.mark.slow
def test_a_file_among_others_that_changes_ends_the_run(job, folder, out, model, monkeypatch, capsys):
    real = model.predict

    def change(self: Any, batch: list[str]) -> Any:
        (folder / "001.jsonl").write_text('{"text": "another one"}\n')
        return real(self, batch)

    monkeypatch.setattr(model, "predict", change)
    assert job("--input", folder, "--output", out.path, *QUARANTINE) == 78
    assert "001.jsonl has changed during the run" in capsys.readouterr().err
    assert not out.complete


def test_each_object_is_opened_a_few_times_only(job, folder, tmp_path, out, monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    for path in folder.iterdir():
        memory.pipe(f"/small/{path.name}", path.read_bytes())
    opened: list[str] = []
    real = type(memory)._open

    def counted(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        opened.append(path)
        return real(self, path, *args, **kwargs)

    monkeypatch.setattr(type(memory), "_open", counted)
    assert job("--input", "memory://small", "--output", out.path, *QUARANTINE) == 0
    assert rows_of(out) == expected(folder)
    of_one = opened.count("/small/050.jsonl")
    assert of_one <= 4, f"an object of three rows was opened {of_one} times"
