"""The files for pipeline tools fit the tools' own libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gpu_repo_runtime.training.cluster import tensorflow_cluster

from tests.answers import AnswerSet

KUBEFLOW = "deploy/pipelines/kubeflow.yaml"
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
assert template.container.command == ["python", "-m", "gpu_repo_runtime.batch", "topic_finder", "run"]
assert template.metadata.interruptible and template.metadata.retries.retries == 3
get_serializable(OrderedDict(), settings, flyte_task.predict_all)
"""


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


@pytest.mark.slow
def test_an_update_adds_a_tool(template, tmp_path):
    child, command = tmp_path / "child", [sys.executable, "-W", "ignore", "-m", "copier"]
    answers = ["--data", "project_name=a", "--data", "project_type=batch", "--data", "pipeline=[flyte]"]

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", child, "-c", "user.name=Owner", "-c", "user.email=owner@example.com", *arguments],
            check=True,
            capture_output=True,
        )

    def run(*arguments: str | Path, cwd: Path = tmp_path) -> None:
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True, cwd=cwd)
        assert done.returncode == 0, done.stderr

    def commit() -> None:
        git("add", "-A")
        git("commit", "--allow-empty", "-m", "What the template brings")

    run("copy", "--quiet", "--defaults", "--vcs-ref", "HEAD", *answers, template, child)
    git("init")
    commit()
    assert {file.name for file in (child / "deploy" / "pipelines").iterdir()} == {"README.md", "flyte_task.py"}
    more = ("--data", "pipeline=[flyte, pachyderm]")
    run("update", "--quiet", "--defaults", "--vcs-ref", "HEAD", *more, cwd=child)
    names = {file.name for file in (child / "deploy" / "pipelines").iterdir()}
    assert names == {"README.md", "flyte_task.py", "pachyderm.json"}
    assert set(yaml.safe_load((child / ".copier-answers.yml").read_text())["pipeline"]) == {"flyte", "pachyderm"}


def test_pachyderm_asks_for_a_gpu_and_keeps_files_apart(folder):
    spec = json.loads((folder / "pachyderm.json").read_text())
    assert spec["resource_limits"]["gpu"] == {"type": "nvidia.com/gpu", "number": 1}
    [*_, command] = spec["transform"]["cmd"]
    assert command.startswith("exec "), "the shell has to hand SIGTERM on"
    assert '--output "/pfs/out/$(basename "$texts")"' in command
    assert spec["input"]["pfs"]["repo"] == "texts", "the variable in the command has the name of the repo"


@pytest.mark.parametrize(
    ("framework", "kinds"), [("torch", ["TrainingRuntime", "TrainJob"]), ("tensorflow", ["Service", "Job"])]
)
def test_kubeflow_trains_with_the_same_command(render, framework, kinds):
    file = render(AnswerSet("batch", framework, pipeline=("kubeflow",), training=True)) / KUBEFLOW
    objects = list(yaml.safe_load_all(file.read_text()))
    assert [o["kind"] for o in objects] == kinds
    assert "topic_finder" in str(objects[-1])
    assert "'nvidia.com/gpu': 4" in str(objects[-1])


def test_the_pods_of_a_tensorflow_training_find_each_other(render, monkeypatch):
    """Kubernetes names a pod of an Indexed Job JOB-INDEX, below the subdomain of its headless service."""
    file = render(AnswerSet("batch", "tensorflow", pipeline=("kubeflow",), training=True)) / KUBEFLOW
    service, job = yaml.safe_load_all(file.read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completions"] == spec["parallelism"], "a node would wait for one that never starts"
    [container] = pod["containers"]
    port = container["ports"][0]["containerPort"]
    names = [f"{job['metadata']['name']}-{n}.{pod['subdomain']}:{port}" for n in range(spec["completions"])]
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    monkeypatch.setattr(os, "environ", dict(os.environ) | {e["name"]: e["value"] for e in container["env"]})
    monkeypatch.delitem(os.environ, "TF_CONFIG", raising=False)
    assert tensorflow_cluster() == {"cluster": {"worker": names}, "task": {"type": "worker", "index": 1}}
    assert json.loads(os.environ["TF_CONFIG"]) == tensorflow_cluster(), "TensorFlow reads it from there"


@pytest.mark.release
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
