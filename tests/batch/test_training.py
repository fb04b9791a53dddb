"""Training goes on where it was stopped, to the same weights; what it writes; what it refuses."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from gpu_repo_runtime.weights import lockfile

from tests.answers import AnswerSet
from tests.batch import training
from tests.sampling import every, sampled
from tests.templates.test_child import own_copy, run

PACKAGE = "topic_finder"


@pytest.fixture(scope="module")
def whole(render, tmp_path_factory) -> tuple[Path, Path]:
    """Return a rendered plain child, and the output of a training in it that nobody stopped."""
    child = render(AnswerSet("batch", "plain", training=True))
    output = tmp_path_factory.mktemp("training") / "whole"
    process = training.start(sys.executable, child, PACKAGE, output)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return child, output


def test_it_learns_and_writes_what_people_look_at(whole):
    _, output = whole
    course = training.outcome(output)["course"]
    assert len(course) == 3
    losses = [float(epoch["loss"]) for epoch in course]
    assert losses == sorted(losses, reverse=True), losses
    assert float(course[-1]["accuracy"]) > 2 / 8, "no better than a guess"
    result = json.loads((output / "result.json").read_text())
    assert result["best"]["epoch"] == 3
    assert result["settings"]["accumulate"] == 3
    assert not (output / "_tmp").exists()
    assert not (output / "mlflow_run.txt").exists()
    left = lockfile.read(output / "weights/weights.lock").files()
    assert {path: file.sha256 for path, file in left.items()} == {
        f"{PACKAGE}/best.pkl": lockfile.sha256_of(output / "best.pkl")
    }
    assert lockfile.sha256_of(output / f"weights/{PACKAGE}/best.pkl") == left[f"{PACKAGE}/best.pkl"].sha256


@pytest.mark.release
def test_stopped_training_reaches_the_same_weights(whole, tmp_path):
    child, _ = whole
    codes = training.stop_at_random(sys.executable, child, PACKAGE, tmp_path, 1)
    assert set(codes) <= {0, -signal.SIGKILL, -signal.SIGTERM, 143}, codes
    assert training.outcome(tmp_path / "stopped") == training.outcome(tmp_path / "whole"), codes


@pytest.mark.slow
def test_sigterm_saves_and_does_not_end_with_success(whole, tmp_path):
    child, _ = whole
    process = training.start(sys.executable, child, PACKAGE, tmp_path / "out", "--epochs", "500", "--patience", "0")
    while not (tmp_path / "out" / "checkpoint.pkl").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    before = (tmp_path / "out" / "checkpoint.pkl").read_bytes()
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143, said
    assert (tmp_path / "out" / "checkpoint.pkl").read_bytes() != before
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.slow
def test_early_stopping(whole, tmp_path):
    child, _ = whole
    options = ("--epochs", "60", "--patience", "1", "--learning-rate", "0.5", "--device", "cpu")
    process = training.start(sys.executable, child, PACKAGE, tmp_path / "out", *options)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["epochs"] == result["best"]["epoch"] + 1 < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    sampled(
        [
            (("--batch-size", "8"), "batch_size was 32, now 8"),
            ((*training.OPTIONS, "--seed", "7"), "seed was 0, now 7"),
            (("--batch-size", "100000"), "do not fill one step"),
            (("--precision", "float16"), "needs the framework torch"),
            (("--epochs", "0"), "--epochs"),
            (("--learning-rate", "1e30"), "or too large: "),
        ],
        every(6),
    ),
)
def test_another_training_is_refused(whole, tmp_path, options, said):
    child, output = whole
    before = {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}
    process = training.start(sys.executable, child, PACKAGE, output, *options)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 78, words
    assert said in words
    assert {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()} == before
    assert not (output / "_tmp").exists()


@pytest.mark.slow
def test_two_trainings_at_once_do_not_share_a_folder(whole, tmp_path):
    child, _ = whole
    first = training.start(sys.executable, child, PACKAGE, tmp_path / "out", "--epochs", "500", "--patience", "0")
    while not (tmp_path / "out" / "checkpoint.pkl").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    second = training.start(sys.executable, child, PACKAGE, tmp_path / "out", "--epochs", "500", "--patience", "0")
    _, said = second.communicate(timeout=60)
    # Another try helps once the first has ended.
    assert second.returncode == 1, said
    assert "another training is at work in" in said
    first.kill()
    first.communicate(timeout=30)
    third = training.start(sys.executable, child, PACKAGE, tmp_path / "out", "--epochs", "1", "--patience", "0")
    _, said = third.communicate(timeout=60)
    assert third.returncode == 0, said


@pytest.mark.release
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_stopped_training_with_a_framework_reaches_the_same_weights(render, tmp_path, torch_build, framework):
    child = own_copy(render, AnswerSet("batch", framework, training=True), tmp_path)
    run(child, "scripts/setup", *(("--framework", torch_build) if framework == "torch" else ()))
    python = str(child / ".venv" / "bin" / "python")
    codes = training.stop_at_random(python, child, "topic_finder", tmp_path, 2)
    assert training.outcome(tmp_path / "stopped") == training.outcome(tmp_path / "whole"), codes
