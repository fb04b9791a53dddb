"""What operators see of the service: health, metrics and traces."""

from __future__ import annotations

from typing import Any

from gpu_repo_runtime.serving.metrics import Metrics
from prometheus_client import Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.served import serve
from tests.runtime.standin_model import Model


def test_health_names_the_version_and_draining_turns_readiness_red_alone() -> None:
    with serve(Model(), app_version="1.2.3", app_image="image@sha256:0") as client:
        for path in ("/livez", "/readyz"):
            about = client.get(path).json()
            found = (about["status"], about["version"], about["image"], about["device"])
            assert found == ("ready", "1.2.3", "image@sha256:0", "cpu")
        for response in (client.get("/livez"), client.post("/predict", json={"texts": []}), client.get("/nothing")):
            assert response.headers["x-model-version"] == "1.2.3"
        client.app.state.service.drain()  # type: ignore[attr-defined]
        assert (client.get("/readyz").status_code, client.get("/livez").status_code) == (503, 200)
        assert client.get("/readyz").headers["connection"] == "close"


def test_metrics_parse_and_count() -> None:
    with serve(Model(), app_version="1.2.3") as client:
        client.post("/predict", json={"texts": ["a", "b"]})
        client.get("/some/path/of/a/client")
        Counter("grades", "Of the owner, in the default registry").inc()
        families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    expected = {
        "counter": "service_requests service_rejected grades process_cpu_seconds",
        "histogram": "service_request_seconds service_queue_wait_seconds service_model_seconds service_batch_size",
        "gauge": "service_queue_depth service_batch_limit service_model_load_seconds service_ready service_info",
    }
    for kind, names in expected.items():
        assert {families[name].type for name in names.split()} == {kind}
    [info] = families["service_info"].samples
    assert info.labels["version"] == "1.2.3"
    routes = {sample.labels["route"] for sample in families["service_requests"].samples if "route" in sample.labels}
    assert routes <= {"/predict", "/livez", "/readyz", "/metrics", "unmatched"}, "no label grows with the input"


def test_gpu_memory_appears_when_the_device_reports_it_and_a_lost_device_breaks_nothing() -> None:
    class Memory:
        used, peak, free, total = 1, 2, 3, 4

    sources: list[tuple[Any, bool]] = [(Memory, True), (lambda: None, False), (lambda: 1 / 0, False)]
    for memory, shown in sources:
        text = generate_latest(Metrics(memory).registry).decode()
        assert ("service_gpu_memory_used_bytes 1.0" in text) == shown
        assert ("service_gpu_memory_total_bytes 4.0" in text) == shown
