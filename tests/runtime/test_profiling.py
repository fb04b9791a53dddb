"""scripts/profile: what fits into which GPU, and its table, files and messages for services and libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime import capacity
from gpu_repo_runtime.capacity import GIB, USABLE, Measured

from tests.answers import CATALOG, AnswerSet
from tests.batch.conftest import RUNTIME

GPUS = [("small", 4.0), ("large", 16.0)]


def line(*sizes: int, base: float = 3.0, each: float = 0.1) -> list[Measured]:
    """Return measurements of a model of `base` GiB that takes `each` GiB more for an input."""
    return [Measured(size, 100.0 * size, int((base + each * size) * GIB)) for size in sizes]


def test_the_largest_batch_is_what_is_left_beside_the_model():
    found = {room["name"]: room["batch"] for room in capacity.rooms(line(1, 8, 32), GPUS)}
    assert found == {"small": int((4 * USABLE - 3) / 0.1), "large": int((16 * USABLE - 3) / 0.1)}


def test_a_model_that_is_larger_than_the_gpu_does_not_fit():
    told = capacity.report(line(1, 8, base=8.0), GPUS, "cuda", price=3.6)
    assert {gpu["name"]: gpu["batch"] > 0 for gpu in told["gpus"]} == {"small": False, "large": True}
    assert told["smallest_gpu"] == "large"
    assert "small                    4  does not fit" in capacity.table(told)
    assert told["million_inputs"] == pytest.approx(3.6 / 3600 / 800 * 1e6), "at the rate of the fastest batch"


@pytest.mark.parametrize("measured", [line(4), line(1, 8, 32, each=-0.01)], ids=["one size", "a line that falls"])
def test_nothing_is_promised_far_beyond_what_was_seen(measured):
    most = 16 * max(one.size for one in measured)
    assert capacity.rooms(measured, GPUS)[-1] == {"name": "large", "gib": 16.0, "batch": most, "more": True}


def test_a_cpu_proves_nothing_of_a_gpu():
    assert capacity.table(capacity.report(line(1), GPUS, "cpu")).endswith(capacity.UNPROVEN)
    assert "not yet run on a GPU" not in capacity.table(capacity.report(line(1), GPUS, "cuda"))


Profile = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Return a function that profiles the model of a package of a project; the files go to tmp_path."""

    def run(project: Path, *options: object, package: str = "topic_finder") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpu_repo_runtime.profiling", "--package", package, "--out", tmp_path]
        return subprocess.run(
            [*command, "--device", "cpu", *map(str, options)],
            cwd=project,
            env=os.environ | {"PYTHONPATH": str(RUNTIME)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize("project_type", ["service", "library"])
def test_a_model_is_profiled_with_its_own_examples(profile, render, tmp_path, project_type):
    done = profile(render(AnswerSet(project_type, "plain")), "--batch-sizes", 1, 16, "--gpus", "T4=16", "--price", "1")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "profile.json").read_text())
    assert [one["size"] for one in told["batches"]] == [1, 16]
    assert all(one["rate"] > 0 and one["memory"] > 0 for one in told["batches"]), told
    assert told["gpus"] == [], "a CPU says nothing about GPUs"
    assert (tmp_path / "profile.pstats").exists(), "the trace of Python's own profiler, for NumPy"
    assert capacity.table(told) in done.stdout


def test_the_script_knows_the_gpus_of_the_catalogue(render):
    text = (render(AnswerSet("service", "plain")) / "scripts" / "profile").read_text().replace("\\\n", "")
    [given] = [line for line in text.splitlines() if line.startswith("gpus=")]
    found = capacity.gpus_in(given.removeprefix("gpus=").strip('"'))
    assert sorted(found) == sorted((gpu["name"], gpu["memory"]) for gpu in CATALOG["gpus"])
