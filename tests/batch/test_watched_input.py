"""Input that changes while it is read is refused; a copy of the same content is the same input."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batch.conftest import texts, write_jsonl, write_parquet
from tests.sampling import sampled


def replaced(path: Path, content: bytes) -> None:
    """Put another file of the same name and time in its place."""
    before = path.stat()
    new = path.with_name("new")
    new.write_bytes(content)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(path)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "grows": (lambda path: path.open("ab").write(b'{"text": "more"}\n'), "its size was"),
    "shrinks": (lambda path: os.truncate(path, path.stat().st_size // 2), "its size was"),
    "is written again": (lambda path: path.write_bytes(path.read_bytes()[::-1]), "its time has changed"),
    "is replaced": (lambda path: replaced(path, path.read_bytes()[::-1]), "it is another file"),
    "is gone": (lambda path: path.unlink(), "is gone now"),
}


def at_call(model, monkeypatch, number: int, change: Callable[[], object]) -> None:
    """Do something when the model is called for that many times, its examples included."""
    predict, calls = model.predict, [0]

    def changing(self, batch):
        calls[0] += 1
        if calls[0] == number:
            change()
        return predict(self, batch)

    monkeypatch.setattr(model, "predict", changing)


def test_a_copy_that_is_touched_while_it_is_compared_goes_on(job, model, tmp_path, out, monkeypatch):
    """As rsync does it: the content first, its time when all is there."""
    source = write_jsonl(tmp_path / "a.jsonl", texts(60))
    digest, touched = hashlib.file_digest, iter(range(1, 4))

    def touching(stream, name):
        found = digest(stream, name)
        if (second := next(touched, None)) is not None:
            os.utime(source, (second, second))
        return found

    at_call(model, monkeypatch, 3, lambda: replaced(source, source.read_bytes()))
    monkeypatch.setattr(hashlib, "file_digest", touching)
    assert job("--input", source, "--output", out.path, "--part-rows", 10) == 0
    assert next(touched, None) is None, "nothing was compared"
    assert [row["text"] for row in out.rows()] == texts(60)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", sampled(["jsonl", "parquet"], ["jsonl"]))
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_file_that_changes_while_it_is_read(job, model, tmp_path, out, monkeypatch, capsys, change, kind, on_error):
    write = write_jsonl if kind == "jsonl" else write_parquet
    source = write(tmp_path / f"a.{kind}", texts(200))
    does, said = CHANGES[change]
    at_call(model, monkeypatch, 5, lambda: does(source))
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10, "--on-error", on_error, "--max-bad", 1)
    assert job(*arguments) == 78
    assert said in capsys.readouterr().err
    assert not out.complete
    assert len(list(out.path.glob("_records/*"))) <= 4, "parts of the changed file have records"


def test_a_file_that_changes_after_it_was_read(job, model, tmp_path, out, monkeypatch, capsys):
    """The first file is through when it changes, in the last part of the second."""
    first, second = write_jsonl(tmp_path / "a.jsonl", texts(20)), write_jsonl(tmp_path / "b.jsonl", texts(20))
    at_call(model, monkeypatch, 3, lambda: first.write_text('{"text": "other"}\n'))
    assert job("--input", first, second, "--output", out.path) == 78
    assert "a.jsonl has changed during the run" in capsys.readouterr().err
    assert not out.complete


def test_a_copy_of_the_same_content_is_the_same_input(job, model, tmp_path, out, monkeypatch):
    """As each pod has that downloads the input by itself."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_jsonl(tmp_path / folder / "a.jsonl", texts(50))
    arguments = ("--output", out.path, "--part-rows", 10)
    os.utime(tmp_path / "two" / "a.jsonl", (1, 1))
    assert job("--input", tmp_path / "one", *arguments, "--shard", "0/2") == 0
    assert job("--input", tmp_path / "two", *arguments, "--shard", "1/2") == 0
    assert [row["text"] for row in out.rows()] == texts(50)


def test_another_content_of_the_same_size_is_another_input(job, tmp_path, out, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", texts(50))
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10)
    assert job(*arguments, "--shard", "0/2") == 0
    source.write_bytes(source.read_bytes().replace(b"number 7 ", b"number X "))
    assert job(*arguments, "--shard", "1/2") == 78
    assert "files changed: a.jsonl" in capsys.readouterr().err


def test_an_object_that_is_replaced_while_it_is_read(job, model, tmp_path, out, monkeypatch, capsys):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    shutil.copyfileobj(write_jsonl(tmp_path / "a.jsonl", texts(100)).open("rb"), memory.open("/changing/a.jsonl", "wb"))
    at_call(model, monkeypatch, 4, lambda: memory.pipe("/changing/a.jsonl", b'{"text": "new"}\n'))
    assert job("--input", "memory://changing", "--output", out.path, "--part-rows", 10) == 78
    assert "its size was" in capsys.readouterr().err
    assert not out.complete


@pytest.mark.parametrize("way", ["another file", "in place"])
def test_another_content_of_the_same_size_and_time_is_another_input(job, tmp_path, out, capsys, way):
    """As cp -p, rsync -t, archives and the layers of an image leave it."""
    source = write_jsonl(tmp_path / "a.jsonl", ["row"] * 30)
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10)
    assert job(*arguments, "--shard", "0/2") == 0
    before, content = source.stat(), source.read_text()
    if way == "another file":
        source.unlink()
    source.write_text(content.replace("row", "ROW"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert job(*arguments, "--shard", "1/2") == 78
    assert "1 input files changed: a.jsonl" in capsys.readouterr().err
    source.write_text(content)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert job(*arguments, "--shard", "1/2") == 0
    assert {row["text"] for row in out.rows()} == {"row"}


def test_another_content_of_the_same_size_and_time_is_noticed_during_the_run(
    job, model, tmp_path, out, monkeypatch, capsys
):
    source = write_jsonl(tmp_path / "a.jsonl", ["row"] * 30)
    before = source.stat()

    def change():
        source.write_text(source.read_text().replace("row", "ROW"))
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))

    at_call(model, monkeypatch, 2, change)
    assert job("--input", source, "--output", out.path, "--part-rows", 10) == 78
    assert "a.jsonl has changed during the run" in capsys.readouterr().err
    assert not out.complete


def test_rights_that_change_during_the_run_change_nothing(job, model, tmp_path, out, monkeypatch):
    source = write_jsonl(tmp_path / "a.jsonl", ["row"] * 30)
    monkeypatch.setattr(job.module("contents"), "CHECKED_BYTES", 0)
    at_call(model, monkeypatch, 2, lambda: source.chmod(0o600))
    assert job("--input", source, "--output", out.path, "--part-rows", 10) == 0
