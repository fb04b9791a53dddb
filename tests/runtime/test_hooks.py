"""What an owner adds in service.py: authentication, error handlers, routes beside the model; and what is refused."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from gpu_repo_runtime.contract import ContractError
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.errors import ServiceError, StartRefused
from gpu_repo_runtime.serving.service import Service
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from tests.conftest import ROOT
from tests.runtime.kinds import ROW, model, module
from tests.runtime.served import Settings, app_of, serve

ASKED = {"instances": [[1.0, 1.0]]}
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

        def size(self, one): return 1
"""


def with_token(app: FastAPI, service: Service) -> None:
    """As the page about the service shows it."""
    assert isinstance(service.settings, Settings)
    app.add_middleware(BearerToken, token=service.settings.api_token.get_secret_value())

    @app.get("/own")
    async def own() -> str:
        return "own"


def paths(app: FastAPI) -> list[tuple[str, str]]:
    """Return every path and method that the application routes, and some that it does not."""
    found = [(route.path, method) for route in app.routes for method in getattr(route, "methods", None) or ()]  # type: ignore[attr-defined]
    return [*found, ("/nothing", "GET"), ("/predict", "GET"), ("//predict", "POST"), ("/predict/", "POST")]


def test_no_route_passes_a_bearer_token_but_health_metrics_and_documentation() -> None:
    with serve(ROW, with_token, aip_predict_route="/aip:predict", aip_health_route="/aip") as client:
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
        documented = client.get("/openapi.json").json()["paths"]
        needs_none = {path for path, found in documented.items() if "401" not in str(found)}
        assert needs_none == {"/livez", "/readyz", "/metrics"}
        right = {"authorization": "bearer open sesame"}
        for path in ("/predict", "/v1/models/kind:predict", "/aip:predict"):
            assert client.post(path, json=ASKED, headers=right).json() == {"predictions": [5.0]}
        assert client.get("/own", headers=right).json() == "own"
        two = [("authorization", "Bearer other"), ("authorization", "Bearer open sesame")]
        assert client.get("/own", headers=two).status_code == 401
        answer = client.post("/predict", json=ASKED, headers={"x-request-id": "mine"})
        assert answer.headers["x-request-id"] == "mine", "a refusal has its id too"
        assert 'status="401"' in client.get("/metrics").text
    with serve(ROW, with_token, root_path="/nlp") as client:
        for path, status in (("/livez", 200), ("/nlp/livez", 200), ("/nlp/predict", 401), ("/nlplivez", 401)):
            assert client.get(path).status_code == status, path


@pytest.mark.parametrize("token", ["", " x", "é"])
def test_a_token_that_protects_nothing_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        BearerToken(Starlette(), token=token)


def test_an_exception_handler_of_the_owner_sees_what_predictions_raise() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        @app.exception_handler(ServiceError)
        async def own(request: Any, error: Exception) -> JSONResponse:
            return JSONResponse({"own": True}, 422)

    with serve(ROW, extend) as client:
        assert client.post("/predict", json={}).json() == {"own": True}
        assert client.post("/predict", json=ASKED).status_code == 200


def depends(app: FastAPI, service: Service) -> None:
    app.router.dependencies.append(Depends(lambda: None))


def twice(app: FastAPI, service: Service) -> None:
    app.add_api_route("/predict", lambda: None, methods=["POST"])


def returns(app: FastAPI, service: Service) -> Any:
    return BearerToken(app, token="x")


def starts(app: FastAPI, service: Service) -> None:
    app.router.on_startup.append(print)


@pytest.mark.parametrize(
    ("extend", "words"),
    [
        (depends, "write a middleware"),
        (twice, "POST /predict is a route of the service"),
        (returns, "its return value is not used"),
        (starts, "write a lifespan around"),
    ],
)
def test_what_would_never_run_is_refused_at_the_start(extend: Any, words: str) -> None:
    with pytest.raises(StartRefused, match=words):
        app_of(ROW, extend)


async def coroutine(*_: Any) -> None: ...


def generator(*_: Any) -> Any:
    yield


@pytest.mark.parametrize("hook", [coroutine, generator])
def test_a_function_whose_call_runs_nothing_of_it_is_refused(hook: Any) -> None:
    with pytest.raises(ContractError, match=r"extend in service\.py"):
        app_of(ROW, hook)
    for name in ("load", "predict"):
        one = model(TOPICS)
        setattr(one, name, hook)
        with pytest.raises(ContractError, match=f"(?i){name}"):
            app_of(one)


def test_a_second_endpoint_shares_the_models_batches_and_its_thread() -> None:
    threads: list[str] = []

    def extend(app: FastAPI, service: Service) -> None:
        def weights(scale: float) -> list[float]:
            threads.append(threading.current_thread().name)
            return [scale * weight for weight in service.model.weights]  # type: ignore[attr-defined]

        @app.post("/sum")
        async def total(rows: list[list[float]]) -> float:
            return sum(await service.predict(rows))

        @app.post("/other")
        async def other(rows: list[list[str]]) -> list[float]:
            return await service.predict(rows)

        @app.get("/weights")
        async def look(scale: float) -> list[float]:
            return await service.run(weights, scale)

        @app.get("/fails")
        async def fails() -> None:
            await service.run([].pop)

    with serve(ROW, extend, max_queue=64, max_texts=64) as client:
        assert client.post("/sum", json=[[1, 1], [0, 1]]).json() == 8.0
        assert client.post("/sum", json=[]).json() == 0
        assert client.post("/other", json=[["x"]]).status_code == 500, "the owner's code gave what is no Input"
        assert client.get("/weights?scale=2").json() == [4.0, 6.0]
        assert threads == ["model_0"]
        assert client.get("/fails").status_code == 500
        assert client.post("/predict", json=ASKED).json() == {"predictions": [5.0]}, "the service goes on"
        never = client.post("/sum", json=[[1, 1]] * 65)
        assert (never.status_code, "MAX_QUEUE is 64" in never.json()["detail"]) == (422, True)


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
