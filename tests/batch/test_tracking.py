"""A training's course in MLflow: only where MLFLOW_TRACKING_URI is set, and never at the cost of the training."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.batch.conftest import JOB, RUNTIME
from tests.batch.training import outcome
from tests.shared import once, shared_folder

SHORT = ("--epochs", "2", "--device", "cpu")
NEEDS = ("mlflow==3.17.2", "numpy", "pyarrow", "tqdm", "prometheus-client", "pydantic")
Train = Callable[..., subprocess.CompletedProcess[str]]


def environment(child: Path, *more: Path, **own: str) -> dict[str, str]:
    """Return the environment of a training in a plain child."""
    path = os.pathsep.join(map(str, (*more, child / "src", RUNTIME)))
    return {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW")} | {"PYTHONPATH": path} | own


@pytest.fixture
def train(render: Callable[[AnswerSet], Path], tmp_path: Path) -> Train:
    """Return a function that trains in a plain child, beside a stand-in for MLflow."""
    child = render(AnswerSet("batch", "plain", training=True))
    shutil.copy(Path(__file__).with_name("mlflow_standin.py"), tmp_path / "mlflow.py")

    def run(*options: str, **own: str) -> subprocess.CompletedProcess[str]:
        given = environment(child, tmp_path, CALLS=str(tmp_path / "calls"), **own)
        command = [sys.executable, *JOB, "train", "--output", tmp_path / "out", *SHORT, *options]
        return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=120)

    return run


def calls(folder: Path) -> list[list[object]]:
    """Return what the stand-in was asked."""
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


@pytest.mark.slow
def test_without_the_variable_nothing_is_imported_or_logged(train, tmp_path):
    (tmp_path / "mlflow.py").write_text("raise SystemExit('it was imported')")
    done = train()
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "calls").exists()
    assert not (tmp_path / "out" / "mlflow_run.txt").exists()


@pytest.mark.slow
def test_a_run_has_the_settings_the_course_and_the_files(train, tmp_path):
    done = train(MLFLOW_TRACKING_URI="http://mlflow.example.com")
    assert done.returncode == 0, done.stderr
    found = calls(tmp_path)
    assert [one[1] for one in found if one[0] == "set_experiment"] == ["topic_finder"]
    assert [one[1]["batch_size"] for one in found if one[0] == "log_params"] == [64]
    course = outcome(tmp_path / "out")["course"]
    losses = [(one[1]["loss"], one[-1]["step"]) for one in found if one[0] == "log_metrics"]
    assert losses == [(float(epoch["loss"]), int(epoch["epoch"])) for epoch in course]
    files = [Path(one[1]).name for one in found if one[0] == "log_artifact"]
    assert files == ["metrics.csv", "result.json"]
    assert found[-1][:2] == ["end_run", "FINISHED"]


@pytest.mark.slow
def test_a_training_that_goes_on_is_the_same_run(train, tmp_path):
    assert train("--epochs", "1", MLFLOW_TRACKING_URI="http://mlflow.example.com").returncode == 0
    (tmp_path / "calls").unlink()
    assert train("--epochs", "2", MLFLOW_TRACKING_URI="http://mlflow.example.com").returncode == 0
    found = calls(tmp_path)
    assert [one[-1] for one in found if one[0] == "start_run"] == [{"run_id": "run-1"}]
    assert {one[-1]["step"] for one in found if one[0] == "log_metrics"} == {2}


@pytest.mark.slow
@pytest.mark.parametrize(("fails", "code"), [("start_run", 1), ("log_metrics", 0)])
def test_a_server_that_is_gone_ends_no_training_that_has_begun(train, tmp_path, fails, code):
    done = train(MLFLOW_TRACKING_URI="http://mlflow.example.com", FAILS_AT=fails)
    assert done.returncode == code, done.stderr
    assert "the server is gone" in done.stderr
    assert (tmp_path / "out" / "result.json").exists() == (code == 0)
    assert [one[0] for one in calls(tmp_path)].count(fails) == 1, "it was asked again and again"


def test_without_the_package_the_message_says_how_to_get_it(train, tmp_path):
    (tmp_path / "mlflow.py").write_text("raise ImportError('no mlflow')")
    done = train(MLFLOW_TRACKING_URI="http://mlflow.example.com")
    assert done.returncode == 78, done.stderr
    assert '"gpu-repo-runtime[mlflow]"' in done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def mlflow_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has MLflow with its server, and what the training needs."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        python = folder / "bin" / "python"
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *NEEDS], check=True)

    return once(shared_folder(tmp_path_factory) / "mlflow-venv", make) / "bin" / "python"


@pytest.fixture
def server(mlflow_python: Path, tmp_path: Path) -> Iterator[str]:
    """Start MLflow's own server on a store of this test; return its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/mlflow.db",
        "--artifacts-destination",
        str(tmp_path / "files"),
    ]
    command = [mlflow_python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen([*command, *store], stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        while not _answers(f"{address}/health"):
            assert process.poll() is None, (tmp_path / "server.log").read_text()
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.release
def test_a_real_server_holds_the_course(render, server, mlflow_python, tmp_path):
    child = render(AnswerSet("batch", "plain", training=True))
    given = environment(child, MLFLOW_TRACKING_URI=server)
    command = [mlflow_python, *JOB, "train", "--output", tmp_path / "out", *SHORT]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    run = (tmp_path / "out" / "mlflow_run.txt").read_text()
    with urllib.request.urlopen(f"{server}/api/2.0/mlflow/runs/get?run_id={run}") as answer:
        held = json.load(answer)["run"]
    metrics = {one["key"]: one["value"] for one in held["data"]["metrics"]}
    assert held["info"]["status"] == "FINISHED"
    assert metrics["loss"] == pytest.approx(float(outcome(tmp_path / "out")["course"][-1]["loss"]))
    listed = f"{server}/api/2.0/mlflow/artifacts/list?run_id={run}"
    with urllib.request.urlopen(listed) as answer:
        assert {one["path"] for one in json.load(answer)["files"]} == {"metrics.csv", "result.json"}
