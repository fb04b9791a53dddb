"""Input that changes while it is read is refused; a copy of the same content is the same input."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batch.conftest import texts, write_jsonl, write_parquet
from tests.sampling import sampled

CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "grows": (lambda path: path.open("ab").write(b'{"text": "more"}\n'), "its size was"),
    "is written again": (lambda path: path.open("r+b").write(path.read_bytes()[::-1]), "its time was "),
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
    assert len(list(out.path.glob("_parts/*.parquet"))) <= 4, "parts of the changed file have records"


def test_a_file_that_changes_after_it_was_read(job, model, tmp_path, out, monkeypatch, capsys):
    """The first file is through when it changes, in the last part of the second."""
    first, second = write_jsonl(tmp_path / "a.jsonl", texts(20)), write_jsonl(tmp_path / "b.jsonl", texts(20))
    at_call(model, monkeypatch, 3, lambda: first.write_text('{"text": "other"}\n'))
    assert job("--input", first, second, "--output", out.path) == 78
    assert "a.jsonl has changed during the run" in capsys.readouterr().err
    assert not out.complete


def test_another_content_of_the_same_size_is_another_input(job, tmp_path, out, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", texts(50))
    arguments = ("--input", source, "--output", out.path, "--part-rows", 10)
    assert job(*arguments, "--shard", "0/2") == 0
    source.write_bytes(source.read_bytes().replace(b"number 7 ", b"number X "))
    assert job(*arguments, "--shard", "1/2") == 78
    assert "files changed: a.jsonl" in capsys.readouterr().err


def test_a_copy_with_other_times_is_the_same_input_where_the_user_says_so(job, tmp_path, out, capsys):
    """Each pod may download the input by itself."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_jsonl(tmp_path / folder / "a.jsonl", texts(50))
    arguments = ("--output", out.path, "--part-rows", 10)
    os.utime(tmp_path / "two" / "a.jsonl", (1, 1))
    assert job("--input", tmp_path / "one", *arguments, "--shard", "0/2") == 0
    assert job("--input", tmp_path / "two", *arguments, "--shard", "1/2") == 78
    assert "--ignore-mtime" in capsys.readouterr().err
    assert job("--input", tmp_path / "two", *arguments, "--shard", "1/2", "--ignore-mtime") == 0
    assert [row["text"] for row in out.rows()] == texts(50)
