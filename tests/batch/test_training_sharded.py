"""Training with PyTorch on several processes: sharded (FSDP) or not, and going on with another number of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.batch.conftest import JOB, RUNTIME
from tests.batch.training import outcome
from tests.shared import once

pytestmark = pytest.mark.slow

OPTIONS = ("--epochs", "2", "--device", "cpu", "--checkpoint-steps", "5")

# Counts what the forward pass keeps for the backward pass, and the gradients, with and without the switch.
KEPT = """
import json, sys, torch
from gpu_repo_runtime.training.engine import Recipe
from gpu_repo_runtime.training.with_torch import Engine

class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        nn = torch.nn
        block = lambda: nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Dropout(0.5), nn.Linear(512, 64))
        self.layers = nn.ModuleList(block() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

class Task:
    def network(self):
        return Layers()

    def loss(self, network, batch):
        return network(batch[0]).square().mean(), torch.tensor(0)

result = []
for switch in (False, True):
    recipe = Recipe(device="cpu", precision="float32", learning_rate=0.01, gradient_checkpointing=switch)
    engine, sizes = Engine(Task(), recipe), {}
    weights = {p.data_ptr() for p in engine._plain.parameters()}
    def keep(tensor):
        if tensor.data_ptr() not in weights:
            sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        engine.step([(torch.ones(256, 64),)], 3)
    names = sorted(engine._plain.state_dict())
    result.append([sum(sizes.values()), float(sum(p.double().sum() for p in engine._plain.parameters())), names])
print(json.dumps(result))
"""


@pytest.fixture(scope="session")
def train(render: Callable[[AnswerSet], Path], torch_python: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that trains the task of a torch child on so many processes."""
    child = render(AnswerSet("batch", "torch", training=True))
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "OMP_NUM_THREADS": "1"}
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | own

    def run(output: Path, *options: str, processes: int = 1) -> subprocess.CompletedProcess[str]:
        launch = (
            ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
        )
        command = [torch_python, *launch, *JOB, "train", "--output", output, *OPTIONS, *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.fixture(scope="session")
def trained(train: Callable[..., subprocess.CompletedProcess[str]], shared: Path) -> Callable[..., Path]:
    """Return a function that gives what a training left, trained once for all tests; who goes on with it copies it."""

    def give(*options: str, processes: int = 1) -> Path:
        def make(folder: Path) -> None:
            done = train(folder, *options, processes=processes)
            assert done.returncode == 0, done.stderr

        return once(shared / "trained" / "".join((str(processes), *options)), make)

    return give


@pytest.fixture
def whole(trained: Callable[..., Path]) -> Path:
    """What one process leaves that nobody interrupts."""
    return trained("--batch-size", "64")


def losses(output: Path) -> list[float]:
    """Return the validation loss of each epoch."""
    return [float(epoch["loss"]) for epoch in outcome(output)["course"]]


def test_a_sharded_training_learns_what_one_process_does(trained, whole):
    """Dropout differs between processes, so the loss is near and not the same."""
    two = trained("--parallel", "fsdp", "--batch-size", "16", "--accumulate", "2", processes=2)
    assert losses(two) == pytest.approx(losses(whole), rel=0.02)
    left = [path.name for path in (two / "weights" / "topic_finder").iterdir()]
    assert left == ["best.pt"], "what a service takes is one whole file"


def half(processes: int, parallel: str, epochs: str) -> tuple[str, ...]:
    """Return the options of a training with 64 examples in a step."""
    return ("--parallel", parallel, "--batch-size", str(64 // processes), "--epochs", epochs)


@pytest.mark.release
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, "fsdp"), (1, "ddp")),
        ((1, "ddp"), (2, "fsdp")),
        ((2, "fsdp"), (2, "ddp")),
    ],
    ids=str,
)
def test_a_checkpoint_goes_on_with_another_number_of_processes(train, trained, whole, tmp_path, before, after):
    """The end of two halves is near that of one training; lost weights would begin at the first loss."""
    parts = shutil.copytree(trained(*half(*before, "1"), processes=before[0]), tmp_path / "parts")
    (parts / "result.json").unlink()
    done = train(parts, *half(*after, "2"), processes=after[0])
    assert done.returncode == 0, done.stderr
    assert losses(parts) == pytest.approx(losses(whole), rel=0.02)
    steps = [epoch["steps"] for epoch in outcome(parts)["course"]]
    assert steps == [epoch["steps"] for epoch in outcome(whole)["course"]]


def test_steps_of_another_size_are_refused_with_the_way_out(train, trained, tmp_path):
    begun = shutil.copytree(trained(*half(1, "ddp", "1")), tmp_path / "begun")
    refused = train(begun, "--batch-size", "64", "--parallel", "fsdp", processes=2)
    assert refused.returncode != 0
    assert "world was 1, now 2" in refused.stderr
    assert "may differ if a step has as many examples as before" in refused.stderr


@pytest.mark.release
def test_gradient_checkpointing_keeps_less_and_learns_the_same(torch_python):
    environment = os.environ | {"PYTHONPATH": str(RUNTIME), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([torch_python, "-c", KEPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [(whole, weights, names), (less, same, found)] = json.loads(done.stdout)
    assert less < whole / 5, (less, whole)
    assert same == pytest.approx(weights, rel=1e-12), "dropout has to be the same when it is computed again"
    assert found == names, "a checkpoint fits with the switch and without"


@pytest.mark.release
@pytest.mark.parametrize(
    "options",
    [("--gradient-checkpointing",), ("--parallel", "fsdp", "--gradient-checkpointing", "--precision", "bfloat16")],
)
def test_the_switches_train_together(train, tmp_path, options):
    done = train(tmp_path / "out", *options, "--batch-size", "32", processes=2)
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "out")[1] < losses(tmp_path / "out")[0]


@pytest.mark.release
def test_sharded_training_in_half_precision_is_refused(train, tmp_path):
    done = train(tmp_path / "out", "--parallel", "fsdp", "--precision", "float16", processes=2)
    assert done.returncode != 0
    assert "float16" in done.stderr
