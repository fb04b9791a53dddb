"""Weights on a cluster: an image volume, a shared volume, or an init container; an overlay takes one of them."""

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
from tests.service.test_manifests import VERSIONS

Objects = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def built(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Objects]:
    """Return a function that builds an overlay with one component, and returns its objects by kind."""
    child = tmp_path_factory.mktemp("weights") / "child"
    shutil.copytree(render(AnswerSet("service", "plain", components=WEIGHTS)), child)

    def of(component: str) -> Objects:
        overlay = child / "deploy/overlays" / component
        overlay.mkdir(exist_ok=True)
        name = "registry.example.com/ml/topic-finder"
        about = {"resources": ["../../base"], "components": [f"../../base/{component}"], "namespace": "outside"}
        about["images"] = [{"name": name, "digest": f"sha256:{'a' * 64}"}]
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(about))
        done = subprocess.run(["kubectl", "kustomize", overlay], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}

    return of


@pytest.mark.parametrize("component", WEIGHTS)
def test_the_service_sees_them_read_only_and_nothing_else_changes(
    built: Callable[[str], Objects], component: str
) -> None:
    objects = built(component)
    for one in objects.values():
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment[using.PLACE] == "/weights"
    assert environment["DEVICE"] == "cuda", "the patch took others away"
    [mount] = [one for one in container["volumeMounts"] if one["mountPath"] == "/weights"]
    assert mount["readOnly"] is True
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/weights", "/dev/shm", "/tmp"}
    assert {one["name"] for one in pod["volumes"]} == {"weights", "shm", "tmp"}
    resources = container["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["nvidia.com/gpu"] == 1


def volume(objects: Objects) -> dict[str, Any]:
    """Return the volume with the weights."""
    volumes = objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
    return next(one for one in volumes if one["name"] == "weights")


def test_an_image_volume_mounts_what_push_makes(built: Callable[[str], Objects]) -> None:
    objects = built("weights-image")
    assert volume(objects)["image"]["reference"].startswith("registry.example.com/ml/topic-finder-weights:")
    [container] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "weights"]
    assert mount["subPath"] == "models"


def test_a_shared_volume_is_claimed(built: Callable[[str], Objects]) -> None:
    objects = built("weights-volume")
    claim = objects["PersistentVolumeClaim"]
    assert volume(objects)["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"], "readOnly": True}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_an_init_container_fetches_with_the_image_of_the_service(built: Callable[[str], Objects]) -> None:
    pod = built("weights-init")["Deployment"]["spec"]["template"]["spec"]
    [init], [container] = pod["initContainers"], pod["containers"]
    assert init["image"] == container["image"], "scripts/deploy gives the digest to one of them only"
    assert init["securityContext"] == container["securityContext"]
    fetch = ["fetch", "--lock", "weights/weights.lock", "--into", "/weights"]
    assert init["command"] == ["python", "-m", "gpu_repo_runtime.weights", *fetch]
    room = int(
        volume({"Deployment": {"spec": {"template": {"spec": pod}}}})["emptyDir"]["sizeLimit"].removesuffix("Gi")
    )
    for one in (init, container):
        assert int(one["resources"]["limits"]["ephemeral-storage"].removesuffix("Gi")) > room, "the pod is evicted"
