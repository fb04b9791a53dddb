"""Training with what an ordinary user of PyTorch has: Datasets, random splits, own metrics, optimizer and schedule."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batch.conftest import RUNTIME
from tests.batch.training import outcome

pytestmark = pytest.mark.slow
Train = Callable[..., "subprocess.CompletedProcess[str]"]

TASK = '''
import random
import numpy as np
import torch
from torch.utils.data import Dataset, random_split


class Noisy(Dataset):
    """Regression with augmentation that uses the random numbers of all three libraries."""

    def __init__(self):
        own = torch.Generator().manual_seed(5)
        self.x = torch.randn(300, 4, generator=own)
        self.y = self.x @ torch.tensor([1.0, -2.0, 0.5, 3.0])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        noise = torch.rand(4) * 0.01 + random.random() * 0.01 + np.random.random() * 0.01
        return {"x": (self.x[index] + noise).float(), "y": self.y[index]}


class Task:
    def data(self):
        return random_split(Noisy(), [0.8, 0.2])

    def network(self):
        return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))

    def optimizer(self, network, learning_rate):
        return torch.optim.SGD(network.parameters(), lr=learning_rate, momentum=0.9)

    def schedule(self, optimizer, steps):
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps // 3, steps // 2])

    def loss(self, network, batch):
        WAIT
        away = network(batch["x"])[:, 0] - batch["y"]
        return away.square().mean(), {"mean_error": away.detach().abs().mean()}
'''
OPTIONS = ("--epochs", "4", "--batch-size", "16", "--checkpoint-steps", "3", "--learning-rate", "0.01")


@pytest.fixture
def train(torch_python: Path, tmp_path: Path) -> Train:
    """Return a function that trains TASK with edits."""

    def run(output: str, *options: str, **edits: str) -> subprocess.CompletedProcess[str]:
        package = tmp_path / "src" / "own"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        task = TASK
        for old, new in ({"WAIT": ""} | edits).items():
            assert old in task, old
            task = task.replace(old, new)
        (package / "task.py").write_text(task)
        own = {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{RUNTIME}", "OMP_NUM_THREADS": "1"}
        command = [
            torch_python,
            "-m",
            "gpu_repo_runtime.batch",
            "own",
            "train",
            "--device",
            "cpu",
            "--output",
            tmp_path / output,
            *options,
        ]
        environment = os.environ | own
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    return run


def test_a_killed_training_resumes_to_the_same_weights_with_other_loaders(train, tmp_path):
    """Augmentation, dropout, split and schedule are those of a training that nobody stopped."""
    assert train("whole", *OPTIONS).returncode == 0
    killed = 'self.n = getattr(self, "n", 0) + network.training; self.n == 20 and __import__("os")._exit(9)'
    assert train("stopped", *OPTIONS, WAIT=killed).returncode == 9
    done = train("stopped", *OPTIONS, "--loaders", "2")
    assert done.returncode == 0, done.stderr
    assert "going on: epoch" in done.stderr
    assert outcome(tmp_path / "stopped") == (whole := outcome(tmp_path / "whole"))
    assert list(whole["course"][0]) == ["epoch", "steps", "training_loss", "loss", "mean_error"]


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({'{"mean_error": away.detach().abs().mean()}': "{} if network.training else 1 / 0"}, "ZeroDivisionError"),
        ({"random_split(Noisy(), [0.8, 0.2])": "Noisy()"}, "expected two"),
        (
            {"random_split(Noisy(), [0.8, 0.2])": "iter([1]), iter([1])"},
            "expected lists or Datasets with a length; got list_iterator",
        ),
        (
            {"MultiStepLR(optimizer, [steps // 3, steps // 2])": "ReduceLROnPlateau(optimizer)"},
            "advances each step; got ReduceLROnPlateau",
        ),
    ],
)
def test_a_mistake_is_named_before_the_first_epoch(train: Train, tmp_path: Path, edits: dict[str, str], said: str):
    done = train("out", *OPTIONS, **edits)
    assert done.returncode == 78, done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert "epoch 1" not in done.stderr
    assert not list((tmp_path / "out").glob("*.pt"))


def test_a_schedule_is_for_its_epochs(train: Train) -> None:
    assert train("out", *OPTIONS).returncode == 0
    done = train("out", *OPTIONS, "--epochs", "8")
    assert done.returncode == 78
    assert "epochs was 4, now 8" in done.stderr
