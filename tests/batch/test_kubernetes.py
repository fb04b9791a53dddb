"""The objects of deploy/: the rules for exit codes, one number of shards, what a pod may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.answers import AnswerSet
from tests.templates import checks

OVERLAYS = {"dev": 1, "prod": 8, "cron": 8}


def job_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the spec of the only Job, or of the Job that the only CronJob makes."""
    [spec] = [
        o["spec"] if o["kind"] == "Job" else o["spec"]["jobTemplate"]["spec"]
        for o in objects
        if o["kind"] in ("Job", "CronJob")
    ]
    return spec


def environment(spec: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in spec["template"]["spec"]["containers"][0]["env"]}


@pytest.fixture(scope="module")
def rendered(render: Callable[[AnswerSet], Path]) -> Path:
    """Return a rendered batch repository."""
    return render(AnswerSet("batch", "plain"))


@pytest.fixture(params=["job.yaml", "cronjob/cronjob.yaml"])
def base(request, rendered: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of the base."""
    return list(yaml.safe_load_all((rendered / "deploy" / "base" / request.param).read_text()))


@pytest.fixture(params=OVERLAYS)
def overlay(request, rendered: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the name and the objects of an overlay, as kubectl makes them."""
    return request.param, checks.objects(rendered / "deploy" / "overlays" / request.param)


def test_exit_codes_are_those_of_the_program(job, base):
    exits = job.module("exits")
    rules = job_spec(base)["podFailurePolicy"]["rules"]
    assert rules[0] == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    actions = {value: rule["action"] for rule in rules[1:] for value in rule["onExitCodes"]["values"]}
    assert actions == {exits.BAD_CONFIGURATION: "FailJob", exits.BAD_INPUT: "FailIndex", 143: "Ignore"}
    assert exits.RETRY not in actions
    [container] = job_spec(base)["template"]["spec"]["containers"]
    assert {rule["onExitCodes"]["containerName"] for rule in rules[1:]} == {container["name"]}


def test_what_an_indexed_job_needs(base):
    spec = job_spec(base)
    assert spec["completionMode"] == "Indexed"
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["backoffLimitPerIndex"] > 0
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert int(environment(spec)["JOB_COMPLETIONS"]) == spec["completions"]


def test_the_grace_of_the_program_ends_before_that_of_the_pod(base):
    pod = job_spec(base)["template"]["spec"]
    [grace] = [a for a in pod["containers"][0]["args"] if a.startswith("--grace=")]
    assert int(grace.partition("=")[2]) < pod["terminationGracePeriodSeconds"]


def test_the_pod_may_do_little(base):
    pod = job_spec(base)["template"]["spec"]
    [container] = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "command" not in container, "tini, the image's entrypoint, has to pass on SIGTERM"
    assert {"/dev/shm", "/tmp"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_overlays_say_the_number_of_shards_once(overlay):
    name, objects = overlay
    spec = job_spec(objects)
    assert spec["completions"] == OVERLAYS[name]
    assert environment(spec)["JOB_COMPLETIONS"] == str(OVERLAYS[name])
    container = spec["template"]["spec"]["containers"][0]
    assert environment(spec)["IMAGE"] == container["image"]


def test_the_options_in_the_manifest_exist(job, base, tmp_path, monkeypatch):
    spec = job_spec(base)
    arguments = spec["template"]["spec"]["containers"][0]["args"]
    assert arguments[:4] == ["python", "-m", "gpu_repo_runtime.batch", "topic_finder"]
    (tmp_path / "in.txt").write_text("one\n")
    real = {"$(INPUT)": str(tmp_path / "in.txt"), "$(OUTPUT)": str(tmp_path / "out")}
    for name, value in real.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    monkeypatch.setenv("JOB_COMPLETIONS", "1")
    monkeypatch.setenv("DEVICE", "cpu")
    assert job.main(*arguments[4:]) == 0
    assert (tmp_path / "out" / "_SUCCESS").exists()
