"""Weights on a cluster: an image volume, a shared volume, or an init container; an overlay takes one of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_repo_runtime.weights import using

from tests.answers import WEIGHTS, AnswerSet
from tests.templates import checks
from tests.templates.test_overlays import pod_of

IMAGE = "registry.example.com/ml/topic-finder"
DIGEST = f"sha256:{'a' * 64}"
SOURCES = {"weights-image": "image", "weights-init": "emptyDir", "weights-volume": "persistentVolumeClaim"}
# What the base mounts and sets, besides.
KEPT = {
    "service": ({"/dev/shm", "/tmp"}, ("DEVICE", "cuda")),
    "batch": ({"/data", "/dev/shm", "/tmp"}, ("INPUT", "/data/input")),
}
BASES = [("service", "base"), ("batch", "base"), ("batch", "base/cronjob")]
Built = Callable[[str], tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture(params=BASES, ids=" ".join)
def built(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Built:
    """Return a function that builds an overlay with a component, and returns its objects by kind, and its pod."""
    kind, base = request.param
    child = shutil.copytree(render(AnswerSet(kind, "plain", components=WEIGHTS)), tmp_path / kind)

    def of(component: str) -> tuple[dict[str, Any], dict[str, Any]]:
        overlay = child / "deploy/overlays" / component
        overlay.mkdir()
        about = {"resources": [f"../../{base}"], "components": [f"../../base/{component}"]}
        images = [{"name": IMAGE, "digest": DIGEST}]
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(about | {"images": images, "namespace": "outside"}))
        found = checks.objects(overlay)
        assert [fault for one in found if (fault := checks.schema_error(json.dumps(one)))] == []
        [pod] = [pod for one in found if (pod := pod_of(one))]
        return {one["kind"]: one for one in found}, pod

    return of


@pytest.mark.parametrize("component", WEIGHTS)
def test_the_container_sees_them_read_only_and_nothing_else_changes(built: Built, component: str) -> None:
    objects, pod = built(component)
    [container] = pod["containers"]
    mounts, variable = KEPT["service" if "Deployment" in objects else "batch"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment[using.PLACE] == "/weights"
    assert variable in environment.items(), "the patch took others away"
    [mount] = [one for one in container["volumeMounts"] if one["mountPath"] == "/weights"]
    assert mount["readOnly"] is True
    assert {one["mountPath"] for one in container["volumeMounts"]} == mounts | {"/weights"}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    [volume] = [one for one in pod["volumes"] if one["name"] == "weights"]
    assert volume.keys() == {"name", SOURCES[component]}
    if component == "weights-image":
        assert (volume["image"]["reference"].split(":")[0], mount["subPath"]) == (f"{IMAGE}-weights", "models")
    if component == "weights-volume":
        claim = objects["PersistentVolumeClaim"]
        assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"], "readOnly": True}
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_an_init_container_fetches_with_the_same_image_and_has_room(built: Built) -> None:
    _, pod = built("weights-init")
    [init], [container] = pod["initContainers"], pod["containers"]
    assert init["image"] == container["image"] == f"{IMAGE}@{DIGEST}", "scripts/deploy gives the digest to one only"
    assert init["securityContext"] == container["securityContext"]
    fetch = ["fetch", "--lock", "weights/weights.lock", "--into", "/weights"]
    assert init["command"] == ["python", "-m", "gpu_repo_runtime.weights", *fetch]
    [volume] = [one for one in pod["volumes"] if one["name"] == "weights"]
    sizes = [one["resources"]["limits"]["ephemeral-storage"] for one in (init, container)]
    room, *limits = (int(size.removesuffix("Gi")) for size in (volume["emptyDir"]["sizeLimit"], *sizes))
    assert min(limits) > room, "the pod is evicted"
