"""scripts/bench: what it says to wrong use. The journeys look at its table and its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import processes
from tests.runtime.services import RUNTIME


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--url", "http://127.0.0.1:9"], 1, "Connection refused"),
        (["--url", "localhost"], 1, "unknown url type"),
        (["--seconds", "0"], 2, "a number of seconds above 0"),
    ],
)
def test_wrong_use_ends_with_one_line(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    done = processes.run("gpu_repo_runtime.bench", *options, env=environment, cwd=tmp_path)
    assert (done.returncode, words in done.stderr.splitlines()[-1]) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
