"""The smoke test that a project's tests/gpu takes from the runtime: what it passes, and how it fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tests.answers import AnswerSet
from tests.runtime.services import RUNTIME
from tests.sampling import sampled

MODEL = """
from pydantic import BaseModel

Input = str


class Output(BaseModel):
    score: float


class Model:
    examples, tolerance = ("a", "bb"), 1e-4

    def load(self, device: str) -> None:
        pass

    def predict(self, batch: list[Input]) -> list[Output]:
        return [Output(score=SCORE) for one in batch]
"""


@pytest.fixture(params=sampled(["batch", "service"], ["service"]))
def project(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a folder with the smoke test of a rendered project."""
    child = render(AnswerSet(request.param, "plain"))
    for name in ("tests/gpu/test_smoke.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((child / name).read_text())
    (tmp_path / "src/topic_finder").mkdir(parents=True)
    (tmp_path / "src/topic_finder/__init__.py").touch()
    return tmp_path


def smoke(project: Path, model: str, tests: str = "tests/gpu", **environment: str) -> tuple[int, str]:
    """Run the smoke test, or other tests, with a model; return exit code and output."""
    (project / "src/topic_finder/model.py").write_text(model)
    paths = {"PYTHONPATH": f"{project / 'src'}{os.pathsep}{RUNTIME}", "PATH": os.environ["PATH"]}
    plugins = ["-p", "no:cacheprovider", "-p", "gpu_repo_runtime.pytest_plugin"]
    done = processes.run("pytest", *plugins, tests, cwd=project, env=paths | environment)
    return done.returncode, done.stdout + done.stderr


# What a model answers, the environment, the exit code, what pytest prints.
RUNS = [
    ("0.1 * len(batch)", {"DEVICE": "cpu"}, 1, ["'a': alone it is ", "'bb': alone it is "]),
    ("len(one) / 3", {"DEVICE": "cpu"}, 0, ["2 passed, 1 skipped"]),  # says that no GPU was asked
    ("0.5", {"SMOKE_REQUIRE": "model"}, 1, ["2 passed, 1 error"]),
]


@pytest.mark.parametrize("run", sampled(range(len(RUNS)), [0]))
def test_the_smoke_test_of_a_model(project: Path, run: int) -> None:
    score, environment, code, words = RUNS[run]
    found, said = smoke(project, MODEL.replace("SCORE", score), **environment)
    assert (found, [word for word in words if word not in said]) == (code, []), said
