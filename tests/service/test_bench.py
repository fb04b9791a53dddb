"""scripts/bench: its table, its files, and what it says to wrong use."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.runtime.services import RUNTIME


@pytest.fixture
def bench_run(child: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the load test with its files in tmp_path."""
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    place = ("--out", str(tmp_path))
    return lambda *options: processes.run(
        "gpu_repo_runtime.bench", *place, *options, cwd=child, env=environment, timeout=120
    )


@pytest.mark.slow
def test_a_service_that_refuses_everything_gives_valid_json(
    start: Callable[..., Any], bench_run: Callable[..., Any], tmp_path: Path
) -> None:
    service = start(ready=False, STANDIN_LOAD_MS="60000")
    service.wait_for("/livez", 200)
    done = bench_run("--url", service.url, "--clients", "1", "--seconds", "0.2")
    assert done.returncode == 0, done.stderr
    [row] = json.loads((tmp_path / "bench.json").read_text(), parse_constant=pytest.fail)["rows"]
    assert row["refused"] > 0
    assert row["p99"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--url", "http://127.0.0.1:9"], 1, "Connection refused"),
        (["--url", "https://localhost:8000"], 2, "http://localhost:8000"),
        (["--seconds", "0"], 2, "a number of seconds above 0"),
    ],
)
def test_wrong_use_ends_with_one_line(bench_run: Callable[..., Any], options: list[str], code: int, words: str) -> None:
    done = bench_run(*options)
    assert done.returncode == code, done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_not_blamed_on_the_service(
    start: Callable[..., Any], bench_run: Callable[..., Any]
) -> None:
    service = start()
    done = bench_run("--url", service.url, "--clients", "1", "--seconds", "0.2", "--out", "/dev/null/x")
    assert done.returncode == 1, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("bench: /dev/null/x cannot be written: ")
