"""The overlays that a child starts with go on meaning the same when an update changes the base below them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.answers import AnswerSet

BASES = {"service": "deployment.yaml", "batch": "job.yaml"}


@pytest.fixture(params=BASES)
def child(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a child of its own whose GPU is a MIG slice."""
    answers = AnswerSet(request.param, "plain", gpu_resource="nvidia.com/mig-1g.10gb")
    folder = tmp_path / request.param
    shutil.copytree(render(answers), folder)
    return folder


def container(child: Path) -> dict[str, Any]:
    """Return the first container of the overlay dev, as kubectl builds it."""
    command = ["kubectl", "kustomize", str(child / "deploy/overlays/dev")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{child.name}: {done.stderr}"
    pods = [
        o["spec"]["template"]["spec"] for o in yaml.safe_load_all(done.stdout) if o["kind"] in ("Deployment", "Job")
    ]
    assert [pod for pod in pods if "tolerations" in pod] == [], f"{child.name}: a pod on a CPU needs no toleration"
    return pods[0]["containers"][0]


def test_dev_runs_on_a_cpu_whatever_comes_first_in_the_base(child: Path) -> None:
    base = child / "deploy/base" / BASES[child.name]
    text = base.read_text(encoding="utf-8")
    more = text.replace("          env:\n", "          env:\n            - {name: LOG_LEVEL, value: debug}\n", 1)
    assert more != text, f"{child.name}: {base.name} has no variables"
    base.write_text(more, encoding="utf-8")
    built = container(child)
    values = {variable["name"]: variable.get("value") for variable in built["env"]}
    assert (values["DEVICE"], values["LOG_LEVEL"]) == ("cpu", "debug"), child.name
    asked = {name for amounts in built["resources"].values() for name in amounts}
    assert asked == {"cpu", "memory", "ephemeral-storage"}, child.name


def test_the_base_keeps_the_places_that_older_overlays_name(child: Path) -> None:
    """Until 0.2.3 a child's own overlay patched the first variable of the first container: it stays DEVICE."""
    for base in sorted((child / "deploy/base").rglob("*.yaml")):
        for document in yaml.safe_load_all(base.read_text(encoding="utf-8")):
            spec = document.get("spec", {})
            pod = spec.get("jobTemplate", {"spec": spec})["spec"].get("template", {}).get("spec", {})
            if "containers" in pod:
                assert pod["containers"][0]["env"][0]["name"] == "DEVICE", f"{child.name}: {base.name}"
                assert "tolerations" in pod, f"{child.name}: {base.name}"
