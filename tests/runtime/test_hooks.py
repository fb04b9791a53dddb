"""What an owner adds in service.py: settings, routes, authentication, CORS, a second endpoint, traces."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving import settings as settings_module
from gpu_repo_runtime.serving import tracing
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.auth import BearerToken
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.service import Service
from opentelemetry import trace
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from tests.conftest import ROOT
from tests.runtime.kinds import KINDS, model, module
from tests.runtime.services import PACKAGE, RUNTIME

Extend = Callable[[FastAPI, Service], Any]
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
"""


class Settings(settings_module.Settings):
    api_token: SecretStr = SecretStr("open sesame")


def client_of(extend: Extend | None, **settings: Any) -> TestClient:
    app = create_app(model(KINDS["row"]), Settings(device="cpu", **settings), extend=extend)
    return TestClient(app, raise_server_exceptions=False)


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


def test_no_route_passes_a_bearer_token_but_what_machines_ask() -> None:
    with client_of(with_token, aip_predict_route="/aip:predict", aip_health_route="/aip") as client:
        asked = paths(client.app)  # type: ignore[arg-type]
        assert {"/predict", "/v1/models/kind:predict", "/v2/models/kind/infer", "/aip:predict", "/docs", "/own"} <= {
            path for path, _ in asked
        }
        for path, method in asked:
            free = path in ("/livez", "/readyz", "/metrics") and method in ("GET", "HEAD")
            for wrong in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic open sesame"}):
                answer = client.request(method, path, headers=wrong, json=ASKED if method == "POST" else None)
                assert (answer.status_code == 401) != free, (method, path, wrong, answer.status_code)
        right = {"authorization": "bearer open sesame"}
        for path in ("/predict", "/v1/models/kind:predict", "/aip:predict"):
            assert client.post(path, json=ASKED, headers=right).json() == {"predictions": [5.0]}
        assert client.get("/own", headers=right).json() == "own"
        two = [("authorization", "Bearer other"), ("authorization", "Bearer open sesame")]
        assert client.get("/own", headers=two).status_code == 401


def test_a_refusal_by_the_owners_middleware_has_its_id_its_line_and_its_count(caplog: pytest.LogCaptureFixture) -> None:
    with client_of(with_token) as client:
        with caplog.at_level(logging.INFO, logger="request"):
            answer = client.post("/predict", json=ASKED, headers={"x-request-id": "mine"})
        assert answer.headers["x-request-id"] == "mine"
        assert [record.fields["status"] for record in caplog.records if record.name == "request"] == [401]  # type: ignore[attr-defined]
        assert 'status="401"' in client.get("/metrics").text


@pytest.mark.parametrize("token", ["", " x", "é"])
def test_a_token_that_protects_nothing_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        BearerToken(Starlette(), token=token)


class Seen:
    """A middleware that writes down what it saw, and answers what it is told to."""

    def __init__(self, app: Any, seen: list[str], refuse: bool = False) -> None:
        self.app, self.seen, self.refuse = app, seen, refuse

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        self.seen.append(scope["path"])
        if self.refuse:
            return await JSONResponse({"refused": True}, 418)(scope, receive, send)
        await self.app(scope, receive, send)


@pytest.mark.parametrize("where", ["extend", "add_middleware afterwards", "http decorator"])
def test_no_path_of_predictions_is_answered_before_the_owners_middleware(where: str) -> None:
    seen: list[str] = []

    def extend(app: FastAPI, service: Service) -> None:
        if where == "extend":
            app.add_middleware(Seen, seen=seen, refuse=True)
        elif where == "http decorator":

            @app.middleware("http")
            async def refuse(request: Any, call_next: Any) -> Any:
                seen.append(request.url.path)
                return JSONResponse({"refused": True}, 418)

    app = create_app(model(KINDS["row"]), Settings(device="cpu", aip_predict_route="/aip"), extend=extend)
    if where.endswith("afterwards"):
        app.add_middleware(Seen, seen=seen, refuse=True)
    routes = ["/predict", "/v1/models/kind:predict", "/v1/models/kind/versions/1:predict", "/aip"]
    with TestClient(app) as client:
        for path in routes:
            assert client.post(path, json=ASKED).status_code == 418, path
    assert seen == routes


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

    for extend, words in ((depends, "write a middleware"), (twice, "POST /predict is the service's own")):
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
        assert "/sum" in client.get("/openapi.json").json()["paths"]
        client.app.state.service.batcher.queue.count = Settings().max_queue  # type: ignore[attr-defined]
        full = client.post("/sum", json=[[1, 1]])
        assert (full.status_code, full.json()["code"]) == (503, "queue_full")
        client.app.state.service.batcher.queue.count = 0  # type: ignore[attr-defined]


def test_cors_answers_a_browser_also_with_errors() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        app.add_middleware(CORSMiddleware, allow_origins=["https://shop.example"], allow_methods=["POST"])

    with client_of(extend) as client:
        origin = {"origin": "https://shop.example"}
        asks = {**origin, "access-control-request-method": "POST"}
        assert client.options("/predict", headers=asks).headers["access-control-allow-origin"] == origin["origin"]
        assert client.post("/predict", json=ASKED, headers=origin).headers["access-control-allow-origin"]
        other = client.post("/predict", json=ASKED, headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


SERVICE = """
    from gpu_repo_runtime.serving import settings
    from pydantic import Field


    class Settings(settings.Settings):
        greeting: str = Field(description="What /hello says")


    def extend(app, service):
        @app.get("/hello")
        async def hello():
            return service.settings.greeting
"""


@pytest.fixture
def package(child: Path) -> Iterator[Path]:
    """Return where the service.py of the stand-in's package is written; it is gone after the test."""
    path = child / "src" / PACKAGE / "service.py"
    yield path
    path.unlink(missing_ok=True)


def run(child: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpu_repo_runtime.serving", PACKAGE, *options]
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "DEVICE": "cpu", **environment}
    return subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=60)


def test_own_settings_stand_in_the_help_and_in_the_list_and_are_asked_for(child: Path, package: Path) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    for option in ("--settings", "--help"):
        listed = run(child, option)
        assert listed.returncode == 0, listed.stderr
        assert "GREETING=" in listed.stdout
        assert "What /hello says" in listed.stdout
        assert "MAX_QUEUE=256" in listed.stdout
    refused = run(child)
    assert (refused.returncode, refused.stderr) == (78, "refusing to start: GREETING: Field required\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torhc\n", "service.py:1: ModuleNotFoundError: No module named 'torhc'"),
        ("def extend(app, service):\n    raise RuntimeError('no')\n", "RuntimeError: no"),
        (
            "def extend(app, service):\n    app.add_api_route('/predict', print, methods=['POST'])\n",
            "the service's own",
        ),
    ],
    ids=["missing package", "raises", "takes a path"],
)
def test_a_service_py_that_fails_ends_the_start_with_its_words(
    child: Path, package: Path, text: str, words: str
) -> None:
    package.write_text(text)
    done = run(child)
    assert done.returncode in (1, 78)
    assert words in done.stdout + done.stderr


def test_the_process_serves_the_owners_route_and_warns_of_settings_that_are_not_used(
    start: Callable[..., Any], package: Path
) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    service = start(GREETING="good morning", GREETINGS="x")
    assert service.get("/hello") == (200, '"good morning"')
    assert "did you mean GREETING?" in service.log.read_text()
    package.write_text("class Settings: ...\n")
    service = start()
    assert "service.py: Settings is not used: let it extend" in service.log.read_text()


def test_a_model_of_version_0_2_is_served_with_one_line_of_deprecation(start: Callable[..., Any]) -> None:
    service = start()
    lines = [json.loads(line)["message"] for line in service.log.read_text().splitlines()]
    [line] = [line for line in lines if "deprecated" in line]
    assert "model.py says nothing about what goes in and comes out" in line
    assert service.predict("rain")[0] == 200


class Recorder(trace.TracerProvider, trace.Tracer):
    """A provider and tracer of OpenTelemetry's API that keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Any = None, **about: Any) -> trace.Span:
        parent = trace.get_current_span(context)
        ids = parent.get_span_context()
        number = len(self.spans) + 1
        span = Span(name, ids.span_id, trace.SpanContext(ids.trace_id or number, number, False), about)
        self.spans.append(span)
        return span

    @trace._agnosticcontextmanager
    def start_as_current_span(self, name: str, context: Any = None, **about: Any) -> Iterator[trace.Span]:
        about.pop("record_exception"), about.pop("set_status_on_exception")
        with trace.use_span(self.start_span(name, context, **about), end_on_exit=True) as span:
            yield span


class Span(trace.NonRecordingSpan):
    def __init__(self, name: str, parent: int, context: trace.SpanContext, about: dict[str, Any]) -> None:
        super().__init__(context)
        self.name, self.parent, self.attributes = name, parent, dict(about.get("attributes") or {})
        self.start, self.stop = about.get("start_time"), None

    def is_recording(self) -> bool:
        return True

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def end(self, end_time: int | None = None) -> None:
        self.stop = end_time


@pytest.mark.parametrize("owner", [False, True], ids=["alone", "with a middleware of the owner"])
def test_a_request_is_traced_with_queue_batch_and_model_in_the_clients_trace(
    monkeypatch: pytest.MonkeyPatch, owner: bool
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "start", lambda *_: tracing.Tracing(recorder))
    with client_of(with_token if owner else None) as client:
        del recorder.spans[:]
        headers = {"traceparent": f"00-{7:032x}-{9:016x}-01", "authorization": "Bearer open sesame"}
        assert client.post("/predict", json=ASKED, headers=headers).status_code == 200
        request, queue, batch, called = recorder.spans
        client.get("/livez")
        assert len(recorder.spans) == 4, "probes are not traced"
        client.app.state.service.tracing = None  # type: ignore[attr-defined]
    assert [span.name for span in (request, queue, batch, called)] == ["POST /predict", "queue", "batch", "model"]
    assert {span.get_span_context().trace_id for span in recorder.spans} == {7}
    ids = [span.get_span_context().span_id for span in recorder.spans]
    assert [span.parent for span in recorder.spans] == [9, ids[0], ids[0], ids[2]]
    assert request.attributes["http.response.status_code"] == 200
    assert queue.start <= queue.stop == batch.start <= called.start <= called.stop <= batch.stop
    assert batch.attributes == called.attributes == {"batch.size": 1}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER"),
    ],
)
def test_only_these_variables_ask_for_traces(environment: dict[str, str], asked: str) -> None:
    assert tracing.asked_by(environment) == asked


LOADED = """
import sys
from gpu_repo_runtime.serving.app import create_app
from topic_finder.model import Model
create_app(Model())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""


def test_nothing_is_loaded_where_nothing_asks_and_a_line_says_what_is_missing(child: Path) -> None:
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}"}
    loaded = subprocess.run([sys.executable, "-c", LOADED], env=own, capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
    own["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    told = subprocess.run([sys.executable, "-c", LOADED], env=own, capture_output=True, text=True, check=True)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and there are none: " in told.stderr
    assert "Add opentelemetry-sdk" in told.stderr


def test_traces_that_cannot_be_sent_do_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.01)
    hold = threading.Event()

    class Stuck(Recorder):
        def force_flush(self, milliseconds: int) -> None:
            hold.wait(60)

    asyncio.run(tracing.Tracing(Stuck()).flush())
    hold.set()


def test_what_the_page_about_the_service_shows_works(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/service.md").read_text()
    [shown] = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "def extend" in block]
    monkeypatch.setenv("API_TOKEN", "open sesame")
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
