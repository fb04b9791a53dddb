"""The settings: a wrong one is named; what gateways and Vertex AI give them."""

from __future__ import annotations

import re

import pytest
from gpu_repo_runtime.serving import settings

from tests.runtime.kinds import KINDS
from tests.runtime.served import serve
from tests.runtime.standin_model import Model

ABSURD = ["0", "1e-320", "-1", "nan", "inf", "1e9", "99999999999", "many", " ", "1.5.1"]
FINE = {("MEMORY_MARGIN", "1e-320"), ("MEMORY_MARGIN", "0"), ("PORT", "0"), ("MAX_BODY_BYTES", "1e9")}
WRONG = [
    ("MODEL_NAME", "a/b"),
    ("MODEL_NAME", ".."),
    ("ROOT_PATH", "/x/"),
    ("ROOT_PATH", "/a/../b//"),
    ("APP_VERSION", "1\r\nset-cookie: a"),
    ("APP_VERSION", "é"),
    ("LOG_LEVEL", "loud"),
]


def test_a_wrong_setting_ends_in_a_line_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [name for name, about in settings.Settings.model_fields.items() if about.annotation in (int, float)]
    rows = [(name.upper(), value) for name in (*numbers, "max_body_bytes") for value in ABSURD]
    for name, value in (row for row in rows + WRONG if row not in FINE):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ValueError, match=name.lower()) as raised:
                settings.Settings()
            lines = settings.faults(raised.value)
        assert any(line.startswith(f"{name}: ") for line in lines), f"{name}={value}: {lines}"
        assert (name, value) not in WRONG or value not in " ".join(lines), "the value is not repeated"
    with pytest.raises(ValueError, match="MAX_QUEUE=10"):
        settings.Settings(max_texts=20, max_queue=10)
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    assert settings.Settings().log_level == "warning"


def test_the_page_of_the_interface_needs_no_network_and_is_found_behind_a_gateway() -> None:
    with serve(Model()) as client:
        addresses = re.findall(r"""(?:src|href|url)["']?\s*[=:]\s*["']([^"']+)""", client.get("/docs").text)
        assert len(addresses) >= 4, addresses
        for address in addresses:
            assert address.startswith("/"), f"{address} is not served from here"
            assert client.get(address).status_code == 200, address
    with serve(Model(), root_path="/ml/topics") as client:
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/ml/topics"}]
        for path in ("/predict", "/ml/topics/predict"):  # gateways that take the path away, and those that do not
            assert client.post(path, json={"texts": ["a"]}).status_code == 200
        assets = re.findall(r"/ml/topics(/docs/assets/[^\"]+)", client.get("/docs").text)
        assert "/docs/assets/swagger-ui-bundle.js" in assets
        for asset in ("/livez", *assets):
            assert client.get(f"/ml/topics{asset}").status_code == 200, asset
            assert client.get(asset).status_code == 200, f"{asset} behind a gateway that takes the path away"
        assert client.get("/ml/topics/ml/topics/livez").status_code == 404


def test_vertex_ai_names_port_and_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = {
        "AIP_PREDICT_ROUTE": "/v1/endpoints/1/deployedModels/2:predict",
        "AIP_HEALTH_ROUTE": "/v1/endpoints/1/deployedModels/2",
    }
    for name, value in {**routes, "AIP_HTTP_PORT": "8081"}.items():
        monkeypatch.setenv(name, value)
    assert settings.Settings().port == 8081
    monkeypatch.setenv("PORT", "9000")
    assert settings.Settings().port == 9000, "PORT goes first"
    with serve(KINDS["row"]) as client:
        assert client.get(routes["AIP_HEALTH_ROUTE"]).json()["status"] == "ready"
        answer = client.post(routes["AIP_PREDICT_ROUTE"], json={"instances": [[1.0, 1.0]], "parameters": {}})
        assert answer.json() == {"predictions": [5.0]}
        client.app.state.service.drain()  # type: ignore[attr-defined]
        assert client.get(routes["AIP_HEALTH_ROUTE"]).status_code == 503
