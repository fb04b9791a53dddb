"""What an owner adds in service.py: settings, routes, authentication, CORS, a second endpoint, traces."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.service import Service
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from tests.conftest import ROOT
from tests.runtime.kinds import model, module
from tests.runtime.owners import ASKED, Settings, client_of, with_token

TOPICS = """
    from pydantic import BaseModel

    Input = str


    class Output(BaseModel):
        label: str


    class Model:
        examples = ("rain",)

        def load(self, device): ...

        def predict(self, batch: list[Input]) -> list[Output]:
            return [Output(label=text) for text in batch]
"""


def paths(app: FastAPI) -> list[tuple[str, str]]:
    """Return every path and method that the application routes, and some that it does not."""
    found = [(route.path, method) for route in app.routes for method in getattr(route, "methods", None) or ()]  # type: ignore[attr-defined]
    return [*found, ("/nothing", "GET"), ("/predict", "GET"), ("//predict", "POST"), ("/predict/", "POST")]


def test_no_route_passes_a_bearer_token_but_health_metrics_and_documentation() -> None:
    with client_of(with_token, aip_predict_route="/aip:predict", aip_health_route="/aip") as client:
        asked = paths(client.app)  # type: ignore[arg-type]
        assert {"/predict", "/v1/models/kind:predict", "/v2/models/kind/infer", "/aip:predict", "/docs", "/own"} <= {
            path for path, _ in asked
        }
        for path, method in asked:
            documentation = path in ("/docs", "/openapi.json") or path.startswith("/docs/")
            free = documentation or path in ("/livez", "/readyz", "/metrics")
            free = free and method in ("GET", "HEAD")
            for wrong in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic open sesame"}):
                answer = client.request(method, path, headers=wrong, json=ASKED if method == "POST" else None)
                assert (answer.status_code == 401) != free, (method, path, wrong, answer.status_code)
        right = {"authorization": "bearer open sesame"}
        for path in ("/predict", "/v1/models/kind:predict", "/aip:predict"):
            assert client.post(path, json=ASKED, headers=right).json() == {"predictions": [5.0]}
        assert client.get("/own", headers=right).json() == "own"
        two = [("authorization", "Bearer other"), ("authorization", "Bearer open sesame")]
        assert client.get("/own", headers=two).status_code == 401


def test_a_refusal_by_the_owners_middleware_has_its_id_and_its_count() -> None:
    with client_of(with_token) as client:
        answer = client.post("/predict", json=ASKED, headers={"x-request-id": "mine"})
        assert answer.headers["x-request-id"] == "mine"
        assert 'status="401"' in client.get("/metrics").text


@pytest.mark.parametrize("token", ["", " x", "é"])
def test_a_token_that_protects_nothing_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        BearerToken(Starlette(), token=token)


def test_an_exception_handler_of_the_owner_sees_what_predictions_raise() -> None:
    from gpu_repo_runtime.serving.errors import ServiceError

    def extend(app: FastAPI, service: Service) -> None:
        @app.exception_handler(ServiceError)
        async def own(request: Any, error: Exception) -> JSONResponse:
            return JSONResponse({"own": True}, 422)

    with client_of(extend) as client:
        assert client.post("/predict", json={}).json() == {"own": True}
        assert client.post("/predict", json=ASKED).status_code == 200


def test_what_would_look_protected_and_is_not_is_refused_at_the_start() -> None:
    def depends(app: FastAPI, service: Service) -> None:
        app.router.dependencies.append(Depends(lambda: None))

    def twice(app: FastAPI, service: Service) -> None:
        app.add_api_route("/predict", lambda: None, methods=["POST"])

    for extend, words in ((depends, "write a middleware"), (twice, "POST /predict is a route of the service")):
        with pytest.raises(StartRefused, match=words):
            client_of(extend)


def test_a_second_endpoint_shares_the_models_batches_and_its_thread() -> None:
    threads: list[str] = []

    def extend(app: FastAPI, service: Service) -> None:
        def weights(scale: float) -> list[float]:
            threads.append(threading.current_thread().name)
            return [scale * weight for weight in service.model.weights]  # type: ignore[attr-defined]

        @app.post("/sum")
        async def total(rows: list[list[float]]) -> float:
            return sum(await service.predict(rows))

        @app.get("/weights")
        async def look(scale: float) -> list[float]:
            return await service.run(weights, scale)

        @app.get("/fails")
        async def fails() -> None:
            await service.run([].pop)

    with client_of(extend) as client:
        assert client.post("/sum", json=[[1, 1], [0, 1]]).json() == 8.0
        assert client.get("/weights?scale=2").json() == [4.0, 6.0]
        assert threads == ["model"]
        assert client.get("/fails").status_code == 500
        assert client.post("/predict", json=ASKED).json() == {"predictions": [5.0]}, "the service goes on"
        paths = list(client.get("/openapi.json").json()["paths"])
        assert paths.index("/fails") < paths.index("/predict") < paths.index("/v1/models")
        never = client.post("/sum", json=[[1, 1]] * (Settings().max_queue + 1))
        assert (never.status_code, never.json()["code"]) == (422, "invalid_request")


def test_what_the_page_about_the_service_shows_works(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/service.md").read_text()
    [shown] = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "def extend" in block]
    monkeypatch.setenv("API_KEY", "open sesame")
    own = module(shown, "shown")
    app = create_app(model(TOPICS), own.Settings(device="cpu"), extend=own.extend)
    token = {"authorization": "Bearer open sesame"}
    with TestClient(app) as client:
        assert client.post("/agree?left=rain&right=rain").status_code == 401
        assert client.post("/agree?left=rain&right=rain", headers=token).json() is True
        assert client.post("/agree?left=rain&right=sun", headers=token).json() is False
        preflight = {"origin": "https://shop.example", "access-control-request-method": "POST"}
        assert client.options("/predict", headers=preflight).status_code == 200


def test_the_contract_on_the_page_about_own_code_is_one() -> None:
    page = (ROOT / "docs/own-code.md").read_text()
    [shown] = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "class Input" in block]
    interface = Interface(model(shown, "shown"))
    assert (interface.blob, interface.deprecations) == ("image", [])
    assert interface.parameters
    assert interface.examples()
