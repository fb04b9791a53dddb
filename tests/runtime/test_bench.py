"""scripts/bench: what it says to wrong use. The journeys look at its table and its files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.runtime.services import RUNTIME


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the load test, with its files in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    return processes.run("gpu_repo_runtime.bench", "--out", str(folder), *options, env=environment, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--url", "http://127.0.0.1:9"], 1, "Connection refused"),
        (["--url", "https://localhost:8000"], 2, "http://localhost:8000"),
        (["--seconds", "0"], 2, "a number of seconds above 0"),
    ],
)
def test_wrong_use_ends_with_one_line(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    done = bench(tmp_path, *options)
    assert (done.returncode, words in done.stderr.splitlines()[-1]) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_not_blamed_on_the_service(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    done = bench(tmp_path, "--url", start().url, "--clients", "1", "--seconds", "0.2", "--out", "/dev/null/x")
    assert done.returncode == 1, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("bench: /dev/null/x cannot be written: ")
