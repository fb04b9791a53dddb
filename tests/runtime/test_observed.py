"""What operators see of the service: health, metrics, request ids and log lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from fastapi.testclient import TestClient
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.standin_model import Model


def test_health_says_version_and_image(client: TestClient) -> None:
    for path in ("/livez", "/readyz"):
        about = client.get(path).json()
        assert (about["status"], about["version"], about["image"], about["device"]) == (
            "ready",
            "1.2.3",
            "image@sha256:0",
            "cpu",
        )


def test_a_full_queue_answers_503_and_leaves_readiness_green(start: Callable[..., Any]) -> None:
    service = start(MAX_QUEUE="64", MAX_BATCH_SIZE="1", STANDIN_CALL_MS="100")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(service.predict, *["a"] * 64)
        end = time.monotonic() + 10
        while service.metric("service_queue_depth") < 60 and time.monotonic() < end:
            time.sleep(0.01)
        status, refused = service.predict("a", "b", "c", "d", "e", "f", "g", "h")
        assert (status, refused["code"]) == (503, "queue_full")
        assert service.get("/readyz")[0] == 200
        assert 'service_rejected_total{reason="queue_full"} 1.0' in service.get("/metrics")[1]
        assert waiting.result()[0] == 200, "accepted requests are answered"


def test_draining_turns_readiness_red_and_liveness_not(serving: Callable) -> None:
    app = serving("app").create_app(Model(), serving("settings").Settings(device="cpu"))
    with TestClient(app) as client:
        app.state.service.drain()
        assert (client.get("/readyz").status_code, client.get("/livez").status_code) == (503, 200)
        assert client.get("/readyz").headers["connection"] == "close"


def test_metrics_parse_and_count(client: TestClient) -> None:
    client.post("/predict", json={"texts": ["a", "b"]})
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    expected = {
        "service_requests": "counter",
        "service_rejected": "counter",
        "service_request_seconds": "histogram",
        "service_queue_wait_seconds": "histogram",
        "service_model_seconds": "histogram",
        "service_batch_size": "histogram",
        "service_queue_depth": "gauge",
        "service_batch_limit": "gauge",
        "service_model_load_seconds": "gauge",
        "service_ready": "gauge",
        "service_info": "gauge",
    }
    assert {name: families[name].type for name in expected if name in families} == expected
    [info] = families["service_info"].samples
    assert info.labels["version"] == "1.2.3"
    routes = {sample.labels["route"] for sample in families["service_requests"].samples if "route" in sample.labels}
    assert routes <= {"/predict", "/livez", "/readyz", "/metrics", "unmatched"}, "no label grows with the input"


def test_gpu_memory_appears_when_the_device_reports_it_and_a_lost_device_breaks_nothing(serving: Callable) -> None:
    class Memory:
        used, peak, free, total = 1, 2, 3, 4

    def lost() -> None:
        raise RuntimeError("CUDA error")

    for memory, shown in ((Memory, True), (lambda: None, False), (lost, False)):
        metrics = serving("metrics").Metrics(int, int, int, memory)
        text = generate_latest(metrics.registry).decode()
        assert ("service_gpu_memory_used_bytes 1.0" in text) == shown
        assert ("service_gpu_memory_total_bytes 4.0" in text) == shown


def test_request_id_is_taken_over_or_made_and_stands_in_log_and_problem(start: Callable[..., Any]) -> None:
    service = start()

    def ask(text: str, request_id: str) -> Any:
        body, headers = {"texts": [text] * bool(text)}, {"x-request-id": request_id}
        return httpx.post(f"{service.url}/predict", json=body, headers=headers)

    given, made, forged = ask("a", "from-the-client.1"), ask("", ""), ask("a", 'x" "forged')
    service.get("/livez")
    service.terminate()
    assert service.exit_code(10) == 0
    assert given.headers["x-request-id"] == "from-the-client.1"
    assert made.headers["x-request-id"] == made.json()["request_id"]
    assert '"' not in forged.headers["x-request-id"]
    lines = [line for line in map(json.loads, service.log.read_text().splitlines()) if line["logger"] == "request"]
    assert [line["status"] for line in lines] == [200, 422, 200], "one line a request, none for a healthy probe"
    assert lines[0]["request_id"] == "from-the-client.1"
    assert {"method", "path", "status", "ms", "inputs", "batch", "queue_ms"} <= lines[0].keys()
