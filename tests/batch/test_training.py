"""A training resumes to the same weights after any kill, leaves weights for a service, and refuses what is wrong."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_repo_runtime.batch import cli
from gpu_repo_runtime.weights import lockfile

from tests.batch import training
from tests.batch.conftest import RUNTIME
from tests.shared import once

OPTIONS = ("--epochs", "4", "--batch-size", "16", "--checkpoint-steps", "3", "--patience", "0")
NEEDS = ("numpy", "pyarrow", "pydantic", "tqdm")
# Calls of a task's loss or collate at which it is killed, and paths whose change kills it. An epoch has 20 steps.
KILLED: tuple[int | str, ...] = (9, 25, "checkpoint/.new", "metrics.csv", 30)


@pytest.fixture
def python(request: pytest.FixtureRequest, shared: Path) -> str | Path:
    """Return the Python that has the packages named by the parameter: this one, that with torch, or a new one."""
    packages: tuple[str, ...] = request.param
    if packages in ((), ("torch",)):
        return request.getfixturevalue("torch_python") if packages else sys.executable

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        command = [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *NEEDS, *packages]
        subprocess.run(command, check=True)

    return once(shared / f"{packages[0]}-venv", make) / "bin" / "python"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "python"),
    [
        pytest.param(training.PLAIN, (), id="plain"),
        pytest.param(training.TORCH, ("torch",), id="torch"),
        pytest.param(training.SCIKIT_LEARN, ("torch",), id="scikit-learn"),
        pytest.param(training.JAX, ("jax", "optax", "orbax-checkpoint"), marks=pytest.mark.release, id="jax"),
        pytest.param(training.KERAS, ("tensorflow-cpu",), marks=pytest.mark.release, id="keras"),
    ],
    indirect=["python"],
)
def test_a_training_killed_at_any_moment_resumes_to_the_same_weights(task, python, tmp_path):
    training.write_task(tmp_path, task)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = (*OPTIONS, *(("--num-workers", "1") if task == training.TORCH else ()))
    done = training.train(python, tmp_path, whole, *options)
    assert done.returncode == 0, done.stderr
    assert float(training.outcome(whole)["course"][-1]["loss"]) < float(training.outcome(whole)["course"][0]["loss"])
    for where in KILLED:
        own = {"WATCH": str(killed / where)} if isinstance(where, str) else {"KILL": str(where)}
        done = training.train(python, tmp_path, killed, *options, **own)
        assert done.returncode == -signal.SIGKILL, (where, done.stderr)
    done = training.train(python, tmp_path, killed, *options)
    assert done.returncode == 0, done.stderr
    assert "resumed: " in done.stderr
    assert training.outcome(killed) == training.outcome(whole)


Main = Callable[..., int]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Return a function that trains PLAIN with edits in this process, into the folder `out`."""
    monkeypatch.syspath_prepend(tmp_path / "src")

    def run(*options: str, edits: dict[str, str] | None = None, output: str = "") -> int:
        task = training.PLAIN
        for old, new in (edits or {}).items():
            assert old in task, old
            task = task.replace(old, new)
        package = f"own_{abs(hash((str(tmp_path), task)))}"
        training.write_task(tmp_path, task, package)
        where = output or str(tmp_path / "out")
        return cli.main(package, ["train", "--device", "cpu", "--output", where, *OPTIONS, *options])

    return run


def test_what_a_training_leaves(train, tmp_path, capsys):
    """The second one stops early and says so; its own `save` needs what an estimator has after a step."""
    assert train() == 0
    out = tmp_path / "out"
    found, result = training.outcome(out), json.loads((out / "result.json").read_text())
    assert list(found["course"][0]) == ["epoch", "steps", "loss", "accuracy"]
    assert (len(found["course"]), result["best"]["epoch"]) == (4, 4)
    [(path, file)] = lockfile.read(out / "weights/weights.lock").files().items()
    assert lockfile.sha256_of(out / "weights" / path) == file.sha256
    assert train() == 0
    assert "resumed: 4 of 4 epochs done" in capsys.readouterr().err
    assert training.outcome(out) == found, "a repeated command trains nothing"
    worse = {
        "return (away**2).mean()": 'return float(os.environ.setdefault("N", "0") + "1")',
        "        self.weights +=": "        self.learnt = getattr(self, 'learnt', 0) + 1\n        self.weights +=",
        "    estimator = Scores\n": "    estimator = Scores\n\n    def save(self, estimator, folder):\n"
        "        np.save(folder / 'own.npy', estimator.learnt)\n",
    }
    assert train("--patience", "2", edits=worse, output=str(tmp_path / "early")) == 0
    said = capsys.readouterr().err
    assert "stopped early after epoch 3: 2 without a lower validation loss" in said
    assert np.load(tmp_path / "early/weights" / next((tmp_path / "early/weights").glob("own*")).name / "own.npy") == 20


MISTAKES = {
    "return pairs[:320], pairs[320:]": [
        ("return pairs", "expected two lists or Datasets with examples"),
        ("return iter(pairs), pairs", "Datasets with examples, to train with and to validate with; got (<zip"),
        ("return pairs[:9], []", "to validate with; got ([("),
    ],
    "return (away**2).mean(), {": [
        ("return float('nan'), {", "the loss is not a number in epoch 1"),
        ("return undefined, {", "the task fails (above): NameError"),
        ("1 / (len(x) - 10); return (away**2).mean(), {", "the task fails (above): ZeroDivisionError"),
    ],
}


@pytest.mark.parametrize(("old", "new", "said"), [(old, *one) for old, rows in MISTAKES.items() for one in rows])
def test_a_mistake_in_the_task_is_named_before_the_first_epoch_ends(train, tmp_path, capsys, old, new, said):
    edits = {old: new, "zip(*numbers(), strict=True))": "zip(*numbers(), strict=True))[:330]"}
    if "iter" in new:
        edits["iter(pairs)"] = "zip(pairs)"
    assert train(edits=edits) == 78
    errors = capsys.readouterr().err
    assert said in errors.splitlines()[-1]
    assert "epoch 1:" not in errors
    assert not list((tmp_path / "out" / "checkpoint").glob("[0-9]*")), "the next start would resume with the mistake"


@pytest.mark.slow
def test_another_training_is_refused_and_leaves_the_first_one(train, tmp_path, capsys):
    assert train() == 0
    before = training.outcome(tmp_path / "out")
    for options, edits, said in (
        (("--batch-size", "8"), {}, "batch_size was 16, now 8"),
        (("--checkpoint-steps", "4"), {}, "checkpoint_steps was 3, now 4"),
        ((), {"pairs[:320], pairs[320:]": "pairs[::-1][:320], pairs[320:]"}, "examples was 320+80, checksum"),
        (("--batch-size", "100000"), {}, "do not fill a step"),
        (("--clip", "2"), {}, "--clip does not apply to plain"),
        (("--output", "s3://bucket/out"), {}, "to a folder on a disk"),
    ):
        assert train(*options, edits=edits) == 78
        assert said in capsys.readouterr().err.splitlines()[-1]
        assert training.outcome(tmp_path / "out") == before, said


@pytest.mark.slow
def test_a_metric_does_not_replace_the_loss_or_the_epoch(train, tmp_path):
    assert train(edits={'{"accuracy"': '{"epoch": 7, "loss": 0.0, "accuracy"'}) == 0
    rows = list(csv.DictReader((tmp_path / "out/metrics.csv").open()))
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    assert min(float(row["loss"]) for row in rows) > 0


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_gone_on_from_is_named(train, tmp_path, capsys):
    assert train() == 0
    (tmp_path / "out/checkpoint/4-0/best.pkl").write_bytes(b"")
    assert train("--epochs", "6") == 78
    assert "is cut, or not of this task's network" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_sigterm_ends_it_and_a_second_training_is_kept_out(tmp_path):
    training.write_task(tmp_path, training.PLAIN)
    out, endless = tmp_path / "out", ("--epochs", "100000", "--patience", "0")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{RUNTIME}"}
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", "own", "train", "--output", out, *endless]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (out / "metrics.csv").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    second = training.train(sys.executable, tmp_path, out, *endless)
    first.terminate()
    said = first.communicate(timeout=60)[1]
    assert (second.returncode, first.returncode) == (1, 143), said
    assert "another training is at work in" in second.stderr
    assert not (out / "result.json").exists()


@pytest.mark.slow
def test_two_processes_train_as_one_does(torch_python, tmp_path):
    """Without dropout and noise the gradients are the same, and so is what is left of them after rounding."""
    calm = {"torch.nn.Dropout(0.1), ": "", "+ noise": ""}
    task = training.TORCH
    for old, new in calm.items():
        task = task.replace(old, new)
    training.write_task(tmp_path, task)
    one, two = tmp_path / "one", tmp_path / "two"
    steps = ("--epochs", "2", "--patience", "0")
    done = training.train(torch_python, tmp_path, one, *steps, "--batch-size", "32")
    assert done.returncode == 0, done.stderr
    done = training.train(torch_python, tmp_path, two, *steps, "--batch-size", "8", "--accumulate", "2", processes=2)
    assert done.returncode == 0, done.stderr
    losses = [[float(epoch["loss"]) for epoch in training.outcome(path)["course"]] for path in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    refused = training.train(torch_python, tmp_path, two, *steps, "--batch-size", "8", "--accumulate", "2")
    assert "processes was 2, now 1" in refused.stderr, refused.stderr


@pytest.mark.slow
def test_two_processes_that_are_killed_resume_to_the_same_weights(torch_python, tmp_path):
    training.write_task(tmp_path, training.TORCH)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = ("--epochs", "2", "--patience", "0", "--batch-size", "4", "--checkpoint-steps", "10")
    assert training.train(torch_python, tmp_path, whole, *options, processes=2).returncode == 0
    done = training.train(torch_python, tmp_path, killed, *options, processes=2, KILL="17")
    assert done.returncode == 1, done.stderr
    done = training.train(torch_python, tmp_path, killed, *options, processes=2)
    assert done.returncode == 0, done.stderr
    assert "resumed: 0 of 2 epochs done, step 11" in done.stderr
    assert training.outcome(killed) == training.outcome(whole)
