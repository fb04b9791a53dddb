"""The overlay in docs/kubernetes.md: identity, secrets, ways out and in, on the base of a service and of a job."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.templates.checks import KUBERNETES

BLOCK = re.compile(r"(?ms)^```yaml\n# (?P<name>[a-z]+\.yaml)\n(?P<text>.*?)^```$")
NAME = "topic-finder"
STORE, NEIGHBOUR, METADATA = "203.0.113.7", "10.0.0.9", "169.254.169.254"


def of_a_job(text: str) -> str:
    """Return a block as its comment says to change it for a batch job."""
    words = {"kind: Deployment": "kind: Job", "apps/v1": "batch/v1", "name: service, env": "name: job, env"}
    for old, new in (words | {", ingress.yaml": ""}).items():
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module", params=["service", "batch"])
def objects(
    request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Return the objects of the page's overlay on the base of a type."""
    child = tmp_path_factory.mktemp(request.param) / "child"
    shutil.copytree(render(AnswerSet(request.param, "plain")), child)
    overlay = child / "deploy/overlays/mine"
    overlay.mkdir()
    page = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
    for block in BLOCK.finditer(page):
        text = block["text"] if request.param == "service" else of_a_job(block["text"])
        (overlay / block["name"]).write_text(text)
    (overlay / "secrets.env").write_text("TOKEN=x\n")
    done = subprocess.run(["kubectl", "kustomize", overlay], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{request.param}: {done.stderr}"
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return the objects of some kinds."""
    return [one for one in objects if one["kind"] in kinds]


def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the template of the only workload's pods."""
    [workload] = of_kind(objects, "Deployment", "Job")
    template: dict[str, Any] = workload["spec"]["template"]
    return template


@pytest.mark.slow
def test_every_object_is_valid(objects: list[dict[str, Any]]) -> None:
    for one in objects:
        for version in KUBERNETES:
            kubernetes_validate.validate(one, version, strict=True)


def test_the_pod_has_the_identity_and_the_secret_and_loses_nothing(objects: list[dict[str, Any]]) -> None:
    spec = pod(objects)["spec"]
    [account], [secret] = of_kind(objects, "ServiceAccount"), of_kind(objects, "Secret")
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    [container] = spec["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    assert "DEVICE" in {one["name"] for one in container["env"]}, "the patch took the others away"
    assert spec["automountServiceAccountToken"] is False, "the clouds bring tokens of their own"


def opens(rule: dict[str, Any], address: str, port: int) -> bool:
    """Tell whether a rule for ways out lets a TCP connection to an address outside of the cluster pass."""
    ports = rule.get("ports")
    if ports and not any(one.get("protocol", "TCP") == "TCP" and one.get("port") == port for one in ports):
        return False
    blocks = [one["ipBlock"] for one in rule.get("to", ()) if "ipBlock" in one]
    inside = any(ipaddress.ip_address(address) in ipaddress.ip_network(block["cidr"]) for block in blocks)
    return inside or not rule.get("to")


def reaches(objects: list[dict[str, Any]], address: str, port: int) -> bool:
    """Tell whether the policies that select the pod let it out; several allow what one of them does."""
    labels = pod(objects)["metadata"]["labels"].items()
    policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy")]
    mine = [one for one in policies if one["podSelector"]["matchLabels"].items() <= labels]
    assert all("Egress" in one["policyTypes"] for one in mine)
    return any(opens(rule, address, port) for one in mine for rule in one.get("egress", ()))


@pytest.mark.parametrize(
    ("address", "port", "open_"),
    [
        (STORE, 443, True),
        (METADATA, 80, True),
        ("169.254.170.23", 80, True),
        ("169.254.169.252", 988, True),
        (METADATA, 22, False),
        (STORE, 80, False),
        (NEIGHBOUR, 5432, False),
    ],
)
def test_the_pod_reaches_stores_and_its_identity_alone(
    objects: list[dict[str, Any]], address: str, port: int, open_: bool
) -> None:
    assert reaches(objects, address, port) is open_


def test_the_base_alone_lets_no_service_out(objects: list[dict[str, Any]]) -> None:
    base = [one for one in objects if one["metadata"]["name"] != f"{NAME}-egress"]
    assert not reaches(base, METADATA, 80)
    assert reaches(base, STORE, 443) is bool(of_kind(objects, "Job")), "a job's base lets it reach stores"


def test_the_way_in_leads_to_a_port_of_the_pod_that_the_policy_opens(objects: list[dict[str, Any]]) -> None:
    ingresses, services = of_kind(objects, "Ingress"), of_kind(objects, "Service")
    if of_kind(objects, "Job"):
        assert (ingresses, services) == ([], [])
        return
    [ingress], [service] = ingresses, services
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    backend = path["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    [port] = [one for one in service["spec"]["ports"] if one["name"] == backend["port"]["name"]]
    assert service["spec"]["selector"].items() <= pod(objects)["metadata"]["labels"].items()
    assert port["targetPort"] in {one["name"] for one in pod(objects)["spec"]["containers"][0]["ports"]}
    [policy] = [one for one in of_kind(objects, "NetworkPolicy") if "Ingress" in one["spec"]["policyTypes"]]
    opened = [one["port"] for rule in policy["spec"]["ingress"] for one in rule["ports"]]
    assert port["targetPort"] in opened
