"""The files for pipeline tools fit the tools' own libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet

PACHYDERM = """
import json, sys
import betterproto
from pachyderm_sdk.api import pps

def missing(given, kept, path=""):
    if not isinstance(given, dict):
        return [] if str(given) == str(kept) or given == kept else [f"{path}: {given!r} became {kept!r}"]
    found = []
    for key, value in given.items():
        name = key if key in kept else betterproto.casing.camel_case(key)
        found += missing(value, kept[name], f"{path}/{key}") if name in kept else [f"{path}/{key} is unknown"]
    return found

spec = json.load(open(sys.argv[1]))
sys.exit("\\n".join(missing(spec, pps.CreatePipelineRequest().from_dict(spec).to_dict())) or 0)
"""
FLYTE = """
import sys
from collections import OrderedDict
from flytekit.configuration import ImageConfig, SerializationSettings
from flytekit.tools.translator import get_serializable
sys.path.insert(0, sys.argv[1])
import flyte_task
settings = SerializationSettings(project="p", domain="d", version="v", image_config=ImageConfig.auto())
template = get_serializable(OrderedDict(), settings, flyte_task.predict).template
limits = {entry.name: entry.value for entry in template.container.resources.limits}
assert limits == {1: "4", 2: "1", 3: "16Gi"}, limits
assert template.container.command == ["python", "-m", "topic_finder.job", "run"], template.container.command
assert template.metadata.interruptible and template.metadata.retries.retries == 3
get_serializable(OrderedDict(), settings, flyte_task.predict_all)
"""


@pytest.fixture(scope="module")
def folder(render) -> Path:
    """Return the folder with the pipelines of a torch child."""
    return render(AnswerSet("batch", "torch")) / "deploy" / "pipelines"


def test_pachyderm_asks_for_a_gpu_and_keeps_files_apart(folder):
    spec = json.loads((folder / "pachyderm.json").read_text())
    assert spec["resource_limits"]["gpu"] == {"type": "nvidia.com/gpu", "number": 1}
    [*_, command] = spec["transform"]["cmd"]
    assert command.startswith("exec "), "the shell has to hand SIGTERM on"
    assert '--output "/pfs/out/$(basename "$texts")"' in command
    assert spec["input"]["pfs"]["repo"] == "texts", "the variable in the command has the name of the repo"


@pytest.mark.parametrize(
    ("framework", "kinds"), [("torch", ["TrainingRuntime", "TrainJob"]), ("tensorflow", ["TFJob"])]
)
def test_kubeflow_trains_with_the_same_command(render, framework, kinds):
    file = render(AnswerSet("batch", framework)) / "deploy" / "pipelines" / "kubeflow.yaml"
    objects = list(yaml.safe_load_all(file.read_text()))
    assert [o["kind"] for o in objects] == kinds
    assert "topic_finder.job" in str(objects[-1])
    assert "'nvidia.com/gpu': 4" in str(objects[-1])
    assert not (render(AnswerSet("batch", "plain")) / "deploy" / "pipelines" / "kubeflow.yaml").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "program", "name"),
    [("pachyderm_sdk==2.12.2", PACHYDERM, "pachyderm.json"), ("flytekit==1.16.31", FLYTE, "")],
)
def test_the_libraries_of_the_tools_take_them(folder, tmp_path, package, program, name):
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, package, "setuptools<81"], check=True)
    command = [python, "-W", "ignore", "-c", program, folder / name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
