"""--max-bad holds for all rows of the input, however many workers share them and wherever the bad ones are."""

from __future__ import annotations

import json

import pytest

BAD = "{bad"


def write(path, bad):
    """Write a row for each item: a bad one where it is true."""
    path.write_text(
        "".join(BAD + "\n" if one else json.dumps({"text": f"row {n}"}) + "\n" for n, one in enumerate(bad))
    )
    return path


def options(source, out, *more):
    return ("--input", source, "--output", out.path, "--on-error", "skip", "--part-rows", 10, *more)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_too_many_bad_rows_of_some_shards_are_not_published(job, tmp_path, out, order, count):
    source = write(tmp_path / "a.jsonl", [n // 10 % 2 == 0 for n in range(160)])
    codes = [job(*options(source, out), "--shard", f"{index}/{count}") for index in range(count)[::order]]
    assert codes == [0] * (count - 1) + [65]
    assert not out.complete
    assert job(*options(source, out), "--shard", f"0/{count}") == 65, "the same again"
    assert not out.complete
    assert job(*options(source, out, "--max-bad", 0.5), "--shard", f"0/{count}") == 0
    assert out.read_json("_manifest.json")["bad"] == 80


@pytest.mark.slow
def test_workers_end_as_one_does(job, tmp_path, out):
    source = write(tmp_path / "a.jsonl", [n // 10 % 2 == 0 and n < 60 for n in range(200)])
    process = job.start(*options(source, out, "--max-bad", 0.2, "--workers", "2"))
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    process = job.start(*options(source, type(out)(tmp_path / "other"), "--max-bad", 0.1, "--workers", "2"))
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 65, said
    assert "30 of 200 rows are bad, more than --max-bad 0.1 allows; most often (30): not JSON: " in said
