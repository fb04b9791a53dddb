"""`profile` says where the time goes."""

from __future__ import annotations

import re

from tests.batch.conftest import texts, write_jsonl


def test_profile_prints_shares_and_batch_sizes_and_draws(job, tmp_path, capsys):
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
    assert (tmp_path / "out" / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "profile.pstats").exists()
