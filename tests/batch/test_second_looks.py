"""What looks done, allowed or unchanged at first, and is looked at once more."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest

from tests.batch.conftest import PACKAGE, Job, texts, write_jsonl
from tests.batch.test_ends import arguments, build, end  # noqa: F401

ASIDE = ("--on-error", "quarantine")


@pytest.fixture
def own(job: Job, tmp_path, monkeypatch) -> Job:
    """Return the job of a copy of the child, which a test may change, with weights."""
    name = f"reproduced_{os.path.basename(tmp_path).replace('-', '_')}"
    package = tmp_path / "child" / "src" / name
    shutil.copytree(job.child / "src" / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "weights.bin").write_bytes(b"1")
    monkeypatch.syspath_prepend(str(tmp_path / "child" / "src"))
    return Job(tmp_path / "child", name)


def test_a_complete_output_with_too_many_bad_rows_is_not_done(job, tmp_path, out, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{}\n')
    given = ("--input", tmp_path / "a.jsonl", "--output", out.path, *ASIDE)
    assert job(*given, "--max-bad", 0.5) == 0
    assert job(*given, "--max-bad", 0.5) == 0
    capsys.readouterr()
    assert job(*given) == 65
    assert "1 of 2 rows are bad, more than --max-bad 0.1 allows" in capsys.readouterr().err


def test_folders_that_do_not_tell_a_column_are_named(job, tmp_path, out, capsys):
    for folder in ("in/city=Ulm", "in/other"):
        (tmp_path / folder).mkdir(parents=True)
        write_jsonl(tmp_path / folder / "a.jsonl", ["x"])
    assert job("--input", tmp_path / "in", "--output", out.path, "--keep", "city,text", *ASIDE) == 65
    assert "other/a.jsonl: no column 'city'" in capsys.readouterr().err


def test_a_model_that_fills_the_same_array_again(job, model, tmp_path, out, monkeypatch):
    held = np.zeros((1, 2), np.float32)

    def predict(self, batch):
        held[0] = len(batch[0])
        return [{"v": held[0]}]

    monkeypatch.setattr(model, "predict", predict)
    monkeypatch.setattr(model, "examples", ("one",))
    source = write_jsonl(tmp_path / "a.jsonl", ["a" * n for n in range(1, 9)])
    assert job("--input", source, "--output", out.path, "--batch-size", 1) == 0
    assert [row["v"] for row in out.rows()] == [[n, n] for n in range(1, 9)]


def test_a_model_that_empties_its_list_before_it_fails(job, model, tmp_path, out, monkeypatch):
    predict = model.predict

    def emptying(self, batch):
        given = list(batch)
        batch.clear()
        return predict(self, given)

    monkeypatch.setattr(model, "predict", emptying)
    source = write_jsonl(tmp_path / "a.jsonl", ["a", "RAISE", "b"])
    assert job("--input", source, "--output", out.path, *ASIDE, "--max-bad", 1) == 0
    assert [row["row"] for row in out.quarantined()] == [1]
    assert [row["text"] for row in out.rows()] == ["a", "b"]


def test_a_signal_that_a_library_has_taken_away(build, arguments, tmp_path):  # noqa: F811
    takes = "[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)]"
    process = build(load=takes, predict="time.sleep(20)").start(*arguments, "--batch-size", 1, "--grace", 1)
    while not list((tmp_path / "out").glob("_parts/*.parquet")):
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGTERM)
    ended, said = end(process)
    assert ended == 143, said


@pytest.mark.parametrize("name", ["src/{package}/weights.bin", "src/beside/helper.py", "src/beside/table.csv"])
def test_what_the_model_uses_beside_its_file_is_part_of_the_plan(own, tmp_path, out, capsys, name):
    given = ("--input", write_jsonl(tmp_path / "a.jsonl", texts(4)), "--output", out.path, "--part-rows", 2)
    path = tmp_path / "child" / name.format(package=own.package)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"first = 1\n")
    assert own(*given, "--shard", "0/2") == 0
    (path.parent / "__pycache__").mkdir(exist_ok=True)
    (path.parent / "__pycache__" / "left.pyc").write_bytes(b"of a tool")
    assert own(*given, "--shard", "0/2") == 0
    path.write_bytes(b"other = 2\n")
    capsys.readouterr()
    assert own(*given, "--shard", "1/2") == 78
    assert "changed" in capsys.readouterr().err
