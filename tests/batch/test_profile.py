"""`profile` says where the time goes."""

from __future__ import annotations

import re

from gpu_repo_runtime.batch import calling

from tests.batch.conftest import texts, write_jsonl


def test_profile_prints_shares_and_batch_sizes(job, tmp_path, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", texts(300))
    arguments = [
        "profile",
        "--input",
        str(source),
        "--output",
        str(tmp_path / "out"),
        "--device",
        "cpu",
        "--rows",
        "200",
    ]
    assert job.main(*arguments, "--batch-sizes", "4", "32") == 0
    said = capsys.readouterr().out
    assert "200 rows" in said
    shares = dict(re.findall(r"^  (\w+) +[\d.]+ s +([\d.]+)%$", said, re.MULTILINE))
    assert {"input", "copy", "compute", "output", "Python"} == set(shares), said
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
    source = write_jsonl(tmp_path / "a.jsonl", texts(3))
    words = ["profile", "--input", str(source), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert job.main(*words, "--batch-sizes", "2", "8", "32") == 0
    assert "3 rows" in capsys.readouterr().out
    assert {2, 8, 32} <= set(seen)


def test_an_input_without_rows_measures_nothing(job, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("")
    words = ["profile", "--input", str(tmp_path / "a.jsonl"), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert job.main(*words) == 65
    assert "there is no good row in the input to profile with" in capsys.readouterr().err
