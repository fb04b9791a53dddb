"""I train on my own data, with scikit-learn and with PyTorch: docs/how-to/train-on-your-data.md. In order."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.batch.conftest import RUNTIME
from tests.batch.training import outcome
from tests.journeys.child import Child

TYPE = "batch"
PAGE = "how-to/train-on-your-data.md"
OWN = Path(__file__).parent / "own"
TRAIN = "scripts/train --output build/{} --epochs {} --checkpoint-steps 20"
pytestmark = [pytest.mark.xdist_group("how-to/predict-on-a-table.md"), pytest.mark.slow]


def test_my_packages_are_installed_and_my_table_is_there(child: Child) -> None:
    child.follow("1. Add the packages")
    child.sh(f".venv/bin/python {OWN}/wine.py")


def test_it_trains_what_my_task_defines(child: Child) -> None:
    child.follow("2. Write task.py")
    child.follow("3. Train")
    rows = list(csv.DictReader(child.path("build/grapes/metrics.csv").open()))
    assert len(rows) == 5
    assert float(rows[-1]["accuracy"]) > 0.8, rows


def test_a_killed_training_resumes_to_the_same_estimator(child: Child) -> None:
    child.sh(TRAIN.format("whole", 8))
    training = child.begin(TRAIN.format("killed", 8), subprocess.PIPE)
    while not child.path("build/killed/checkpoint.pkl").exists():
        if training.poll() is not None:
            pytest.fail(f"{training.communicate()[0]}\nexit code {training.returncode}, before I killed it", False)
        with suppress(subprocess.TimeoutExpired):
            training.wait(0.005)
    os.killpg(training.pid, signal.SIGKILL)
    training.communicate()
    assert not child.path("build/killed/result.json").exists(), "it was done before I killed it"
    child.sh(TRAIN.format("killed", 8), expect="going on: epoch")
    assert outcome(child.path("build/killed")) == outcome(child.path("build/whole"))


def test_the_task_of_the_page_trains_with_pytorch(child: Child, torch_python: Path, tmp_path: Path) -> None:
    [task] = [block.text for block in child.blocks if block.section == "With PyTorch"]
    (tmp_path / "sine").mkdir()
    (tmp_path / "sine" / "__init__.py").touch()
    (tmp_path / "sine" / "task.py").write_text(task)
    options = ("--epochs", "5", "--batch-size", "16", "--loaders", "1", "--device", "cpu", "--patience", "0")
    command = [torch_python, "-m", "gpu_repo_runtime.batch", "sine", "train", "--output", tmp_path / "out", *options]
    own = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{RUNTIME}"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "out/metrics.csv").open()))
    assert float(rows[-1]["mean_error"]) < 0.8 * float(rows[0]["mean_error"]), rows
