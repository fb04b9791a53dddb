"""The memory that a run needs does not grow with its input."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import pytest

from tests.batch.conftest import write_parquet

LIMIT = 1.1
# A column of a row group is not held as a whole.
ONE_GROUP = 1.2


def peak(job, source, output, *options) -> int:
    """Return the highest memory of a run in KiB."""
    process = job.start_anew("--input", source, "--output", output, *options)
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
