"""The files for pipeline tools fit the tools' own libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet

KUBEFLOW = "deploy/pipelines/kubeflow.yaml"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(render) -> Path:
    """Return the folder with the pipelines of a torch child."""
    return render(AnswerSet("batch", "torch", pipeline=("pachyderm", "flyte"), training=True)) / "deploy" / "pipelines"


@pytest.mark.parametrize("tools", [(), ("flyte",), ("pachyderm", "kubeflow")], ids="+".join)
def test_only_the_files_of_the_tools_that_were_asked_for(render, tools):
    folder = render(AnswerSet("batch", "torch", pipeline=tools, training=True)) / "deploy" / "pipelines"
    names = {"flyte": "flyte_task.py", "pachyderm": "pachyderm.json", "kubeflow": "kubeflow.yaml"}
    expected = {names[tool] for tool in tools} | ({"README.md"} if tools else set())
    assert {file.name for file in folder.glob("*")} == expected, f"pipeline={list(tools)}"
    if tools:
        text = (folder / "README.md").read_text()
        assert {tool for tool in names if names[tool] in text} == set(tools), folder / "README.md"


def test_pachyderm_asks_for_a_gpu_and_keeps_files_apart(folder):
    spec = json.loads((folder / "pachyderm.json").read_text())
    assert spec["resource_limits"]["gpu"] == {"type": "nvidia.com/gpu", "number": 1}
    assert spec["transform"]["image"].endswith(":v0.1.0"), "the first release, as in deploy/overlays"
    [*_, command] = spec["transform"]["cmd"]
    assert command.startswith("exec "), "the shell has to hand SIGTERM on"
    assert '--output "/pfs/out/$(basename "$texts")"' in command
    assert spec["input"]["pfs"]["repo"] == "texts", "the variable in the command has the name of the repo"


@pytest.mark.parametrize(("framework", "kinds"), [("torch", ["TrainingRuntime", "TrainJob"]), ("tensorflow", ["Job"])])
def test_kubeflow_trains_with_the_same_command(render, framework, kinds):
    file = render(AnswerSet("batch", framework, pipeline=("kubeflow",), training=True)) / KUBEFLOW
    objects = list(yaml.safe_load_all(file.read_text()))
    assert [o["kind"] for o in objects] == kinds
    assert "topic_finder" in str(objects[-1])
    assert "'nvidia.com/gpu': 4" in str(objects[-1])
