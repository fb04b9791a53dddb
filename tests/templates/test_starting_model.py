"""The model that a child starts with: short, and right about every sentence that the demo and the pages show."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import testing

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.shared import once, shared_folder

# Of the demo and of READMEs.
SAID = {
    "Rain and strong wind are in the forecast for tomorrow": "weather",
    "The class has two functions and a loop": "computing",
    "rain and wind tomorrow": "weather",
    "the team won by one goal": "sport",
    "Rain and wind are in the forecast": "weather",
    "The team won the match by one goal": "sport",
}

# Prints the answers of the model of a child; run by a Python that has its framework.
ASKED = """
import json, sys
from started.model import Model
model = Model()
model.load("cpu")
print(json.dumps([[one.label, one.score] for one in model.predict(json.loads(sys.argv[1]))]))
"""


@pytest.fixture(scope="module")
def model(render: Callable[[AnswerSet], Path]) -> Iterator[Any]:
    """Return the model of a plain service, loaded as a service loads it."""
    child = render(AnswerSet("service", "plain", project_name="started"))
    sys.path.insert(0, str(child / "src"))
    yield testing.loaded(importlib.import_module("started.model").Model, "cpu")
    sys.path.remove(str(child / "src"))


def test_what_the_demo_asks(model: Any) -> None:
    for sentence in SAID:
        [answer] = model.predict([sentence])
        assert answer.label == SAID[sentence], sentence


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("project_type", TYPES)
def test_a_reader_grasps_it_at_once(render: Callable[[AnswerSet], Path], project_type: str, framework: str) -> None:
    answers = AnswerSet(project_type, framework)
    child = render(answers)
    text = (child / "src" / answers.package_name / "model.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 30, f"{answers.id}: model.py has {len(lines)} lines"
    names = [path.name for path in child.rglob("*") if path.is_file()]
    assert not [name for name in names if "weights" in name and name != "weights"], names  # scripts/weights


@pytest.fixture
def framework_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns a Python with a framework for the CPU."""

    def of(framework: str) -> Path:
        if framework == "torch":
            found: Path = request.getfixturevalue("torch_python")
            return found

        def make(folder: Path) -> None:
            uv = Path(sys.executable).parent / "uv"
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
            install = [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
            subprocess.run([*install, framework, "numpy", "pydantic"], check=True)

        return once(shared_folder(tmp_path_factory) / f"{framework}-venv", make) / "bin" / "python"

    return of


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.release)])
def test_a_framework_computes_what_numpy_does(
    model: Any, render: Callable[[AnswerSet], Path], framework_python: Callable[[str], Path], framework: str
) -> None:
    child = render(AnswerSet("service", framework, project_name="started"))
    texts = [*SAID, ""]
    command = [framework_python(framework), "-c", ASKED, json.dumps(texts)]
    environment = os.environ | {"PYTHONPATH": str(child / "src"), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    labels, scores = zip(*json.loads(done.stdout), strict=True)
    here = model.predict(texts)
    assert list(labels) == [one.label for one in here]
    assert list(scores) == pytest.approx([one.score for one in here], abs=1e-5)
