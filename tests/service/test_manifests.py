"""The Kubernetes objects: valid for the API server, and as the service needs them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.answers import COMPONENTS, AnswerSet
from tests.runtime.services import RUNTIME
from tests.sampling import sampled
from tests.templates.checks import objects, schema_error

METRICS = RUNTIME / "gpu_repo_runtime/serving/metrics.py"
ANSWERS = AnswerSet("service", "torch", gpu_resource="nvidia.com/mig-1g.10gb", components=COMPONENTS)


@pytest.fixture(scope="module")
def child(render: Callable[[AnswerSet], Path]) -> Path:
    return render(ANSWERS)


@pytest.fixture(scope="module")
def alone(render: Callable[[AnswerSet], Path]) -> Path:
    """Return the same service without Kubernetes."""
    return render(AnswerSet("service", "torch", kubernetes=False))


@pytest.fixture(scope="module")
def base(child: Path) -> dict[str, Any]:
    """Return the objects of deploy/base by kind."""
    texts = [path.read_text() for path in sorted((child / "deploy/base").rglob("*.yaml"))]
    return {document["kind"]: document for text in texts for document in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def build(child: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Return a function that builds an overlay with Kustomize."""
    return lambda overlay: objects(child / "deploy/overlays" / overlay)


@pytest.fixture(scope="module")
def pod(base: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a pod."""
    return base["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    """Return its only container."""
    [only] = pod["containers"]
    return only


def test_one_gpu_for_each_pod_and_requests_equal_limits(pod: dict[str, Any], container: dict[str, Any]) -> None:
    resources = container["resources"]
    assert resources["limits"]["nvidia.com/mig-1g.10gb"] == 1
    assert resources["requests"] == resources["limits"]
    assert "nvidia.com/gpu" in {toleration["key"] for toleration in pod["tolerations"]}


def test_pod_is_locked_down_and_may_write_where_it_needs_to(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    volumes = {volume["name"]: volume["emptyDir"] for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert (volumes[mounts["/dev/shm"]]["medium"], "sizeLimit" in volumes[mounts["/dev/shm"]]) == ("Memory", True)
    assert "/tmp" in mounts


def test_probes_ask_what_the_service_answers(container: dict[str, Any]) -> None:
    paths = {
        probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}


def test_time_to_stop_is_enough_for_pre_stop_and_drain(pod: dict[str, Any], container: dict[str, Any]) -> None:
    shutdown = next(int(entry["value"]) for entry in container["env"] if entry["name"] == "SHUTDOWN_SECONDS")
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert sleep >= 5
    assert pod["terminationGracePeriodSeconds"] >= sleep + shutdown + 5


def test_replicas_survive_a_node_and_need_no_spare_gpu(base: dict[str, Any], pod: dict[str, Any]) -> None:
    spec = base["Deployment"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "50%"}
    assert "kubernetes.io/hostname" in {spread["topologyKey"] for spread in pod["topologySpreadConstraints"]}
    assert base["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_every_selector_names_this_service_only(base: dict[str, Any]) -> None:
    label = {"app.kubernetes.io/name": "topic-finder"}
    specs = {kind: base[kind]["spec"] for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor")}
    assert all(spec["selector"]["matchLabels"] == label for spec in specs.values())
    assert base["Service"]["spec"]["selector"] == label
    assert base["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == label


def test_autoscalers_follow_a_metric_that_the_service_exports(base: dict[str, Any], child: Path) -> None:
    exported = set(re.findall(r'"(service_\w+)"', METRICS.read_text()))
    [metric] = base["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in exported
    assert base["HorizontalPodAutoscaler"]["spec"]["minReplicas"] >= 2
    [trigger] = base["ScaledObject"]["spec"]["triggers"]
    assert set(re.findall(r"service_\w+", trigger["metadata"]["query"])) <= exported
    assert trigger["metadata"]["ignoreNullValues"] == "false"


def test_prod_leaves_the_number_of_pods_to_the_autoscaler(build: Callable[[str], list[dict[str, Any]]]) -> None:
    documents = {document["kind"]: document for document in build("prod")}
    assert "replicas" not in documents["Deployment"]["spec"]
    assert (
        documents["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
        == documents["Deployment"]["metadata"]["name"]
    )


@pytest.fixture(scope="module")
def outside(child: Path, build: Callable[[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the objects by kind of an overlay with gateway and login."""
    overlay = child / "deploy/overlays/outside"
    overlay.mkdir()
    components = ["../../base/gateway", "../../base/login", "../../base/monitoring"]
    about = {"resources": ["../../base"], "components": components, "namespace": "outside"}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"kind": "Kustomization", **about}))
    documents = build("outside")
    shutil.rmtree(overlay)
    assert [fault for one in documents if (fault := schema_error(json.dumps(one)))] == []
    return {document["kind"]: document for document in documents}


def containers(of: dict[str, Any]) -> dict[str, Any]:
    """Return the containers of the Deployment by name."""
    return {one["name"]: one for one in of["Deployment"]["spec"]["template"]["spec"]["containers"]}


@pytest.mark.slow
def test_the_route_leads_to_the_service_and_to_nothing_that_is_the_clusters_own(outside: dict[str, Any]) -> None:
    [rule] = outside["HTTPRoute"]["spec"]["rules"]
    paths = {match["path"]["value"] for match in rule["matches"]}
    assert "/topic-finder/predict" in paths
    assert not any(own in path for path in paths for own in ("metrics", "livez", "readyz"))
    [target] = rule["backendRefs"]
    assert target == {"name": outside["Service"]["metadata"]["name"], "port": 80}
    assert {"name": "ROOT_PATH", "value": "/topic-finder"} in containers(outside)["service"]["env"]


def test_with_a_login_nobody_comes_past_it(outside: dict[str, Any]) -> None:
    login = containers(outside)["login"]
    [port] = login["ports"]
    assert [entry["targetPort"] for entry in outside["Service"]["spec"]["ports"]] == [port["name"]]
    open_to_all = [rule for rule in outside["NetworkPolicy"]["spec"]["ingress"] if "from" not in rule]
    assert [entry["port"] for rule in open_to_all for entry in rule["ports"]] == [port["name"]]
    assert f"--http-address=0.0.0.0:{port['containerPort']}" in login["args"]
    [listening] = containers(outside)["service"]["ports"]
    assert f"--upstream=http://127.0.0.1:{listening['containerPort']}/" in login["args"]
    assert login["securityContext"]["readOnlyRootFilesystem"] is True
    assert login["resources"]["requests"] == login["resources"]["limits"]


def test_what_waits_for_an_answer_waits_longer_than_the_service(outside: dict[str, Any]) -> None:
    from gpu_repo_runtime.serving.settings import Settings

    longest = Settings().request_seconds + Settings().body_seconds
    [rule] = outside["HTTPRoute"]["spec"]["rules"]
    proxy = next(word for word in containers(outside)["login"]["args"] if word.startswith("--upstream-timeout="))
    for seconds in (rule["timeouts"]["request"], proxy.partition("=")[2]):
        assert int(seconds.removesuffix("s")) > longest


@pytest.mark.slow
def test_alerts_and_dashboard_are_there_once_and_the_same_without_kubernetes(
    base: dict[str, Any], child: Path, alone: Path
) -> None:
    groups = yaml.safe_load((alone / "monitoring/alerts.yaml").read_text())["groups"]
    assert base["PrometheusRule"]["spec"]["groups"] == groups
    held = [path.relative_to(place).as_posix() for place in (child, alone) for path in place.rglob("dashboard.json")]
    assert held == ["deploy/base/monitoring/dashboard.json", "monitoring/dashboard.json"]
    assert not (child / "monitoring").exists()
    assert (child / held[0]).read_text() == (alone / held[1]).read_text()


@pytest.mark.parametrize("where", sampled(["child", "alone"], ["child"]))
def test_compose_mounts_files_that_exist_and_pins_images(where: str, request: pytest.FixtureRequest) -> None:
    child = request.getfixturevalue(where)
    compose = yaml.safe_load((child / "compose.yaml").read_text())
    services = compose["services"]
    taken = {config["source"] for service in services.values() for config in service.get("configs", [])}
    assert taken == compose["configs"].keys()
    for name, config in compose["configs"].items():
        assert yaml.safe_load(config["content"]), name
        assert "$" not in config["content"], f"{name}: Compose would take it for a variable"
    for name, service in services.items():
        image = re.sub(r"\$\{\w+:-(.*)\}", r"\1", service["image"])
        assert re.search(r":[\w.-]+$", image), f"{name}: {image} has no tag"
        assert not image.endswith(":latest"), name
        for volume in service.get("volumes", []):
            assert (child / volume.split(":")[0]).exists(), f"{name}: {volume}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port} is open to the network, and nobody has to log in"
    assert services["service"]["read_only"] is True
    assert services["service"]["cap_drop"] == ["ALL"]
