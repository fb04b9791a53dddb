"""The overlays that a child starts with go on meaning the same when an update changes the base below them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.answers import AnswerSet
from tests.templates import checks

BASES = {"service": "deployment.yaml", "batch": "job.yaml"}


@pytest.fixture(params=BASES)
def child(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a child of its own whose GPU is a MIG slice."""
    answers = AnswerSet(request.param, "plain", gpu_resource="nvidia.com/mig-1g.10gb", ci=("jenkins", "github"))
    folder = tmp_path / request.param
    shutil.copytree(render(answers), folder)
    return folder


def container(child: Path) -> dict[str, Any]:
    """Return the first container of the overlay dev, as kubectl builds it."""
    pods = [pod for pod in map(pod_of, objects(child, "dev")) if pod]
    assert [pod for pod in pods if "tolerations" in pod] == [], f"{child.name}: a pod on a CPU needs no toleration"
    return pods[0]["containers"][0]


@pytest.mark.slow
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
            pod = pod_of(document)
            if pod and "containers" in pod:
                assert pod["containers"][0]["env"][0]["name"] == "DEVICE", f"{child.name}: {base.name}"
                assert "tolerations" in pod, f"{child.name}: {base.name}"


def objects(child: Path, overlay: str) -> list[dict[str, Any]]:
    """Return what kubectl builds of an overlay."""
    return checks.objects(child / "deploy/overlays" / overlay)


def pod_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the pod of a Deployment, a Job, a CronJob; None for another object."""
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    pod: dict[str, Any] | None = spec.get("template", {}).get("spec")
    return pod


def test_every_overlay_passes_the_restricted_policy_and_names_an_image_that_a_pipeline_pushes(child: Path) -> None:
    """The Pod Security Standard "restricted" of Kubernetes."""
    for overlay in sorted(path.name for path in (child / "deploy/overlays").iterdir()):
        pods = [pod for pod in map(pod_of, objects(child, overlay)) if pod]
        assert pods, f"{overlay}: no pod"
        for pod in pods:
            assert pod["securityContext"]["runAsNonRoot"] is True, overlay
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, overlay
            for one in pod["containers"] + pod.get("initContainers", []):
                assert one["securityContext"]["allowPrivilegeEscalation"] is False, overlay
                assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}, overlay
                assert one["image"].rpartition(":")[2] in ("main", "v0.1.0"), f"{overlay}: {one['image']}"


@pytest.mark.parametrize("child", ["batch"], indirect=True)
def test_claims_survive_the_deletion_of_an_overlay(child: Path) -> None:
    for overlay in ("dev", "prod", "cron"):
        kinds = {one["kind"] for one in objects(child, overlay)}
        assert "PersistentVolumeClaim" not in kinds, f"{overlay}: kubectl delete -k deletes the data"
        [claim] = objects(child, f"{overlay}/data")
        [job] = [one for one in objects(child, overlay) if one["kind"] in ("Job", "CronJob")]
        assert claim["metadata"]["namespace"] == job["metadata"]["namespace"], overlay


@pytest.mark.parametrize("child", ["service"], indirect=True)
def test_the_limits_of_a_rollout_agree(child: Path) -> None:
    """A pod that loads as long as it may ends no rollout; a rollout of two waves ends before its command gives up."""
    [spec] = [one["spec"] for one in objects(child, "prod") if one["kind"] == "Deployment"]
    startup = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] < spec["progressDeadlineSeconds"]
    waves = 2 * spec["progressDeadlineSeconds"]
    jenkins, github = (child / "Jenkinsfile").read_text(), (child / ".github/workflows/ci.yml").read_text()
    assert waves < 35 * 60 < 60 * int(re.findall(r"timeout-minutes: (\d+)", github)[-1])
    assert re.findall(r"timeout\(time: .*\)", jenkins)[-1] == "timeout(time: 1, unit: 'HOURS')"


@pytest.mark.parametrize("child", ["batch"], indirect=True)
@pytest.mark.parametrize("overlay", ["prod", "cron"])
def test_a_job_that_hangs_gives_its_gpus_back(child: Path, overlay: str) -> None:
    [spec] = [one["spec"] for one in objects(child, overlay) if one["kind"] in ("Job", "CronJob")]
    assert 0 < spec.get("jobTemplate", {}).get("spec", spec)["activeDeadlineSeconds"] <= 86_400
