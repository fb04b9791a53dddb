"""What looks done, allowed or unchanged at first, and is looked at once more."""

from __future__ import annotations

import os
import shutil

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
