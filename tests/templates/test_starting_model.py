"""The model that a child starts with: short, and right about every sentence that the demo and the pages show."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime import testing

from tests.answers import FRAMEWORKS, TYPES, AnswerSet

# Of the demo and of READMEs.
SAID = {
    "Rain and strong wind are in the forecast for tomorrow": "weather",
    "The class has two functions and a loop": "computing",
    "rain and wind tomorrow": "weather",
    "the team won by one goal": "sport",
    "Rain and wind are in the forecast": "weather",
    "The team won the match by one goal": "sport",
}


def test_what_the_demo_asks(render: Callable[[AnswerSet], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    child = render(AnswerSet("service", "plain", project_name="started"))
    monkeypatch.syspath_prepend(child / "src")
    model = testing.loaded(importlib.import_module("started.model").Model, "cpu")
    assert {sentence: model.predict([sentence])[0].label for sentence in SAID} == SAID


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
