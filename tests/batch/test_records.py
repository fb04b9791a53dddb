"""A part counts only while its files are there, whole; what is lost is made again, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.conftest import Output, texts, write_jsonl

OPTIONS = ("--part-rows", 20, "--on-error", "quarantine", "--max-bad", 1)


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[object, ...]:
    """Return the arguments of a run over 100 rows in 5 parts, with bad rows in each."""
    lines = [f"RAISE {n}" if n % 10 == 3 else text for n, text in enumerate(texts(100))]
    return ("--input", write_jsonl(tmp_path / "a.jsonl", lines), *OPTIONS)


@pytest.fixture
def whole(job, arguments, tmp_path) -> Output:
    """Return the output of a run that nobody disturbs."""
    output = Output(tmp_path / "whole")
    assert job(*arguments, "--output", output.path) == 0
    return output


@pytest.mark.parametrize("folder", ["_parts", "_quarantine"])
def test_what_is_lost_is_made_anew(job, arguments, whole, out, folder):
    """Before the end, cut as on a full disk; after it, when a person has deleted _SUCCESS too."""
    shards = [(*arguments, "--output", out.path, "--shard", f"{index}/2") for index in range(2)]
    assert job(*shards[0]) == 0
    cut = max(out.path.glob(f"{folder}/part-*"))
    cut.write_bytes(cut.read_bytes()[:-10])
    for lost in ((), ("data/part-00000-000001.parquet", "_quarantine/part-00000-000004.parquet", "_SUCCESS")):
        for name in lost:
            (out.path / name).unlink()
        assert [job(*shard) for shard in shards] == [0, 0]
        assert (out.rows(), out.quarantined()) == (whole.rows(), whole.quarantined())


def test_parts_without_the_plan_that_they_were_made_by(job, arguments, out, capsys):
    """Else parts of another code would stand beside those of this one."""
    own = (*arguments, "--output", out.path, "--shard", "0/2")
    assert job(*own) == 0
    (out.path / "_plan.json").unlink()
    assert job(*own) == 78
    assert "and no _plan.json of this job" in capsys.readouterr().err
    assert not out.complete


def test_bad_rows_of_an_attempt_that_was_killed_are_not_left(job, tmp_path, out):
    """A row that was bad for want of memory, and is not the second time; the kill came before the part's record."""
    source = write_jsonl(tmp_path / "a.jsonl", texts(20))
    options = ("--part-rows", 10, "--on-error", "quarantine")
    stale = out.path / "_quarantine" / "part-00000-000000.parquet"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"rows of before")
    assert job("--input", source, "--output", out.path, *options) == 0
    assert not stale.exists()
