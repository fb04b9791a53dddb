"""`profile` says where the time goes."""

from __future__ import annotations

import re

from gpu_repo_runtime.batch import calling

from tests.batch.conftest import texts, write_jsonl


def profile(job, tmp_path, rows: int, *options: object) -> int:
    source = write_jsonl(tmp_path / "a.jsonl", texts(rows))
    code: int = job.main("profile", "--input", source, "--output", tmp_path / "out", "--device", "cpu", *options)
    return code


def test_profile_prints_shares_and_batch_sizes(job, tmp_path, capsys):
    assert profile(job, tmp_path, 300, "--rows", 200, "--batch-sizes", 4, 32) == 0
    said = capsys.readouterr().out
    assert "200 rows" in said
    shares = dict(re.findall(r"^  (\w+) +[\d.]+ s +([\d.]+)%$", said, re.MULTILINE))
    assert {"input", "prediction", "output"} == set(shares), said
    assert 99 < sum(map(float, shares.values())) < 101, said
    sizes = re.findall(r"^ +(\d+) +[\d,]+ +([\d,]+) MiB$", said, re.MULTILINE)
    assert [size for size, _ in sizes] == ["4", "32"], said
    assert all(int(memory.replace(",", "")) > 10 for _, memory in sizes), said
    assert (tmp_path / "out" / "profile.pstats").exists()


def test_a_batch_is_measured_full_however_few_rows_there_are(job, tmp_path, capsys, monkeypatch):
    """Two rows said which GPU has room for 256, and no batch had more than two."""
    seen = []
    whole = calling.Caller.answers
    monkeypatch.setattr(calling.Caller, "answers", lambda self, inputs: seen.append(len(inputs)) or whole(self, inputs))
    assert profile(job, tmp_path, 3, "--batch-sizes", 2, 8, 32) == 0
    assert "3 rows" in capsys.readouterr().out
    assert {2, 8, 32} <= set(seen)


def test_an_input_without_rows_measures_nothing(job, tmp_path, capsys):
    assert profile(job, tmp_path, 0) == 65
    assert "there is no good row in the input to profile with" in capsys.readouterr().err
