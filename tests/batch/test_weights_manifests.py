"""Weights of a batch job on a cluster: the components of a service, in a Job and in a CronJob."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from gpu_repo_runtime.weights import using

from tests.answers import WEIGHTS, AnswerSet
from tests.batch.test_kubernetes import environment, job_spec
from tests.templates.checks import KUBERNETES

IMAGE = "registry.example.com/ml/topic-finder"
DIGEST = f"sha256:{'a' * 64}"


@pytest.fixture(scope="module")
def built(
    render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], dict[str, Any]]:
    """Return a function that builds an overlay with a base and a component, and returns the spec of its Job."""
    child = tmp_path_factory.mktemp("weights") / "child"
    shutil.copytree(render(AnswerSet("batch", "plain", components=WEIGHTS)), child)

    def of(base: str, component: str) -> dict[str, Any]:
        overlay = child / "deploy/overlays" / f"{component}-{base.replace('/', '-')}"
        overlay.mkdir(exist_ok=True)
        about = {"resources": [f"../../{base}"], "components": [f"../../base/{component}"]}
        about["images"] = [{"name": IMAGE, "digest": DIGEST}]
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(about))
        done = subprocess.run(["kubectl", "kustomize", overlay], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        objects = list(yaml.safe_load_all(done.stdout))
        for one in objects:
            for version in KUBERNETES:
                kubernetes_validate.validate(one, version, strict=True)
        return job_spec(objects)

    return of


@pytest.mark.parametrize("component", WEIGHTS)
@pytest.mark.parametrize("base", ["base", "base/cronjob"])
def test_the_job_sees_them_read_only_and_keeps_the_rest(built, base, component):
    spec = built(base, component)
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert environment(spec)[using.PLACE] == "/weights"
    assert environment(spec)["INPUT"] == "/data/input", "the patch took others away"
    [mount] = [one for one in container["volumeMounts"] if one["mountPath"] == "/weights"]
    assert mount["readOnly"] is True
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/weights", "/data", "/dev/shm", "/tmp"}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    [volume] = [one for one in pod["volumes"] if one["name"] == "weights"]
    source = {"weights-image": "image", "weights-init": "emptyDir", "weights-volume": "persistentVolumeClaim"}
    assert volume.keys() == {"name", source[component]}


@pytest.mark.parametrize("base", ["base", "base/cronjob"])
def test_an_init_container_fetches_with_the_image_of_the_job(built, base):
    pod = built(base, "weights-init")["template"]["spec"]
    [init], [container] = pod["initContainers"], pod["containers"]
    assert init["image"] == container["image"] == f"{IMAGE}@{DIGEST}"
    fetch = ["fetch", "--lock", "weights/weights.lock", "--into", "/weights"]
    assert init["command"] == ["python", "-m", "gpu_repo_runtime.weights", *fetch]
