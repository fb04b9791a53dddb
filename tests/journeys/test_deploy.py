"""I deploy to my cluster: docs/how-to/deploy-to-kubernetes.md."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import yaml

from tests.journeys.child import Child
from tests.templates.checks import KUBERNETES

TYPE = "service"
PAGE = "how-to/deploy-to-kubernetes.md"


def objects(text: str) -> dict[str, Any]:
    """Return the objects of an overlay by kind; each must be valid."""
    found = list(yaml.safe_load_all(text))
    for one in found:
        for version in KUBERNETES:
            kubernetes_validate.validate(one, version, strict=True)
    return {one["kind"]: one for one in found}


def test_my_overlay_adds_identity_secret_and_address_to_the_base(child: Child) -> None:
    child.follow("2. Write an overlay")
    made = objects(child.follow("3. Look at it, then apply"))
    spec = made["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert spec["serviceAccountName"] == made["ServiceAccount"]["metadata"]["name"]
    assert container["envFrom"] == [{"secretRef": {"name": made["Secret"]["metadata"]["name"]}}]
    assert "DEVICE" in {one["name"] for one in container["env"]}, "the patch took the others away"
    [path] = made["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == made["Service"]["metadata"]["name"]


def test_on_openshift_the_cluster_chooses_the_user(child: Child) -> None:
    assert "runAsUser" in child.sh("kubectl kustomize deploy/overlays/mine")
    assert "runAsUser" not in child.follow("OpenShift")
