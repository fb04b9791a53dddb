"""scripts/profile: its table and its files, for services and libraries."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import processes
from tests.answers import AnswerSet
from tests.shared import RUNTIME


@pytest.mark.slow
@pytest.mark.parametrize("project_type", ["service", "library"])
def test_a_model_is_profiled_with_its_own_examples(render, tmp_path: Path, project_type: str) -> None:
    options = ("--package", "topic_finder", "--device", "cpu", "--batch-sizes", "1", "16", "--out", str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(RUNTIME)}
    project = render(AnswerSet(project_type, "plain"))
    done = processes.run("gpu_repo_runtime.profiling", *options, cwd=project, env=environment)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "profile.json").read_text())
    assert [one["size"] for one in told["batches"]] == [1, 16]
    assert all(one["rate"] > 0 and one["memory"] > 0 for one in told["batches"]), told
    assert (tmp_path / "profile.pstats").exists(), "the trace of Python's own profiler, for NumPy"
    assert "batch size  inputs/s    peak memory" in done.stdout
    assert "measured without an NVIDIA GPU" in done.stdout
