"""The memory of a run grows neither with its input nor with its rows; --part-bytes holds for rows of many bytes."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.batch.conftest import write_jsonl, write_parquet

PUT_ASIDE = ("--on-error", "quarantine", "--max-bad", 1)
MIB = 1 << 20


@pytest.mark.parametrize("shards", [1, 3])
def test_each_row_group_is_cut_by_its_own_rows(job, tmp_path, out, shards):
    small = pa.table({"text": [f"row {n}" for n in range(5000)]})
    large = pa.table({"text": [f"{n} " + "x" * 50_000 for n in range(100)]})
    source = tmp_path / "a.parquet"
    with pq.ParquetWriter(source, small.schema) as writer:
        for group in (small, large, small):
            writer.write_table(group, row_group_size=len(group))
    for shard in range(shards):
        assert job("--input", source, "--output", out.path, "--part-bytes", MIB, "--shard", f"{shard}/{shards}") == 0
    sizes = [
        sum(len(text) for text in pq.read_table(part)["text"].to_pylist())
        for part in sorted((out.path / "data").iterdir())
    ]
    assert max(sizes) <= MIB, "a part is larger than --part-bytes"
    assert len(sizes) < 12, "small rows are cut as large ones are"
    rows = out.rows()
    assert [row["row"] for row in rows] == list(range(10_100))
    assert [row["text"] for row in rows] == [
        text for group in (small, large, small) for text in group["text"].to_pylist()
    ]


LIMIT = 1.1
# A column of a row group is not held as a whole.
ONE_GROUP = 1.2


def peak(job, source, output, *options) -> int:
    """Return the highest memory of a run in KiB."""
    process = job.start("--input", source, "--output", output, *options)
    highest = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            highest = max(highest, int(found[1]) if found else 0)
        time.sleep(0.01)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert highest > 10_000, f"{highest} KiB: that was not the process that works"
    return highest


PART = 8 * MIB
ROWS = 1000
# What three parts of 8 MiB need, with what is made of them meanwhile and what the allocators keep; no more than a third
# of what all rows would need.
MOST = 260 * MIB


def write_large(kind: str, path: Path, count: int) -> Path:
    """Write rows of 150 kB that cannot be made smaller, in text formats as base64; in Parquet with small pages."""
    texts = [base64.b64encode(np.random.default_rng(n).bytes(112_500)).decode() for n in range(count)]
    found = path.with_suffix(f".{kind}")
    if kind == "parquet":
        pq.write_table(pa.table({"text": texts}), found, write_batch_size=4)
    elif kind == "csv":
        found.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    else:
        write_jsonl(found, texts)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_memory_is_that_of_some_parts(job, tmp_path, kind):
    options = ("--part-bytes", PART, "--on-error", "fail")
    needed = {
        count: peak(job, write_large(kind, tmp_path / f"rows-{count}", count), tmp_path / f"out-{count}", *options)
        for count in (1, ROWS)
    }
    more = (needed[ROWS] - needed[1]) * 1024
    assert more <= MOST, f"{kind}: {needed} KiB for 1 and {ROWS} rows"
    done = json.loads((tmp_path / f"out-{ROWS}" / "_manifest.json").read_text())
    assert done["written"] == ROWS


@pytest.mark.release
@pytest.mark.parametrize(
    ("kind", "group", "few", "limit"),
    [
        # With less, not all that is held at the same time has come together once.
        ("parquet", 100_000, 300_000, LIMIT),
        ("parquet", 1_000_000, 100_000, ONE_GROUP),
        ("jsonl", 0, 300_000, LIMIT),
    ],
)
def test_a_million_rows_need_no_more_than_few(job, tmp_path, kind, group, few, limit):
    lines = [f"this is row {n} of some text to be read, in words that do not matter" for n in range(1_000_000)]
    small, large = tmp_path / f"small.{kind}", tmp_path / f"large.{kind}"
    for path, rows in ((small, few), (large, 1_000_000)):
        if kind == "parquet":
            write_parquet(path, lines[:rows], group)
        else:
            path.write_text("".join(f'{{"text": "{line}"}}\n' for line in lines[:rows]))
    needed = [peak(job, path, tmp_path / f"out-{path.stem}") for path in (small, large)]
    assert needed[1] <= limit * needed[0], f"{needed[0]} KiB for {few:,} rows, {needed[1]} KiB for 1,000,000"
