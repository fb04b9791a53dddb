"""The short way of plain requests is closed where an owner or an agent has put something around the application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import fastapi
import pytest
import starlette.applications
from fastapi import FastAPI, Request
from gpu_repo_runtime.serving.errors import ServiceError
from gpu_repo_runtime.serving.middleware import RequestMiddleware
from opentelemetry import metrics
from starlette.applications import Starlette
from starlette.middleware import Middleware as StarletteMiddleware
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from tests.runtime.standin_model import Model
from tests.runtime.wired import ASKED, Wired, post, wired


class Seen:
    """A layer that writes down which paths it saw."""

    def __init__(self, app: Any, seen: list[str]) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope.get("path", ""))
        await self.app(scope, receive, send)


def middleware(app: FastAPI, seen: list[str]) -> None:
    app.add_middleware(Seen, seen=seen)


def http_middleware(app: FastAPI, seen: list[str]) -> None:
    @app.middleware("http")
    async def look(request: Request, call_next: Any) -> Any:
        seen.append(request.url.path)
        return await call_next(request)


def own_list(app: FastAPI, seen: list[str]) -> None:
    app.user_middleware.append(StarletteMiddleware(Seen, seen=seen))


def instrumented(app: FastAPI, seen: list[str]) -> None:
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Seen(build(), seen)  # type: ignore[method-assign]


def handler(app: FastAPI, seen: list[str]) -> None:
    @app.exception_handler(ServiceError)
    async def own(request: Request, error: Exception) -> JSONResponse:
        seen.append(request.url.path)
        return JSONResponse({}, 422)


def larger(app: FastAPI, seen: list[str]) -> None:
    app.max_body_size = 10
    seen.append("/predict")


BEFORE_THE_START = {
    "middleware": middleware,
    "http decorator": http_middleware,
    "the list of middleware": own_list,
    "an instrumented stack": instrumented,
    "an exception handler": handler,
    "a limit of the application": larger,
}


@pytest.mark.parametrize("what", BEFORE_THE_START.values(), ids=BEFORE_THE_START)
def test_what_an_owner_adds_closes_the_door(what: Callable[..., None]) -> None:
    seen: list[str] = []

    async def scenario() -> None:
        async with wired(Model(), extend=lambda app, _: what(app, seen)) as service:
            await service.ask(post({"texts": []}))
            assert service.by_the_door == 0

    asyncio.run(scenario())
    assert "/predict" in seen


def replaced_stack(service: Wired, seen: list[str], patch: pytest.MonkeyPatch) -> None:
    service.app.middleware_stack = Seen(service.app.middleware_stack, seen)


def rebuilt_stack(service: Wired, seen: list[str], patch: pytest.MonkeyPatch) -> None:
    service.app.middleware_stack = None
    service.app.add_middleware(Seen, seen=seen)


def patched(owner: Any) -> Callable[..., None]:
    def patch_call(service: Wired, seen: list[str], patch: pytest.MonkeyPatch) -> None:
        before = owner.__call__

        async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["path"])
            await before(self, scope, receive, send)

        patch.setattr(owner, "__call__", call)

    return patch_call


WHILE_IT_SERVES = {
    "another stack": replaced_stack,
    "a stack that is built again": rebuilt_stack,
    "FastAPI's class": patched(fastapi.FastAPI),
    "Starlette's class": patched(starlette.applications.Starlette),
    "the class of a layer": patched(RequestMiddleware),
}


@pytest.mark.parametrize("what", WHILE_IT_SERVES.values(), ids=WHILE_IT_SERVES)
def test_what_comes_around_the_application_later_sees_every_request(
    what: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def scenario() -> None:
        async with wired(Model()) as service:
            await service.ask(post(ASKED))
            assert (service.by_the_door, seen) == (1, [])
            what(service, seen, monkeypatch)
            assert b"predictions" in await service.ask(post(ASKED))

    asyncio.run(scenario())
    assert seen[0] == "/predict"


class Meters(metrics.MeterProvider):
    """Writes down what is measured."""

    def __init__(self) -> None:
        self.recorded: list[Any] = []

    def get_meter(self, *about: Any, **more: Any) -> Any:
        meter, measured = metrics.NoOpMeter("none"), self.recorded

        class Histogram(metrics.NoOpHistogram):
            def record(self, amount: Any, attributes: Any = None, context: Any = None) -> None:
                measured.append(attributes["http.response.status_code"])

        meter.create_histogram = lambda name, **_: Histogram(name)  # type: ignore[method-assign,assignment]
        return meter


def test_who_measures_requests_measures_all(monkeypatch: pytest.MonkeyPatch) -> None:
    meters = Meters()

    async def scenario() -> None:
        async with wired(Model()) as service:
            await service.ask(post(ASKED))
            monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: meters)
            await service.ask(post(ASKED) + post(ASKED))

    asyncio.run(scenario())
    assert meters.recorded == [200, 200, 200], "two predictions and the last request"


def test_a_fastapi_that_does_not_say_whether_it_measures_is_asked_itself() -> None:
    async def scenario() -> None:
        async with wired(Model()) as service:
            way = service.door._way  # type: ignore[union-attr]
            assert way.is_open()
            del service.app._native_telemetry
            assert not way.is_open()

    asyncio.run(scenario())


def test_what_is_put_around_the_application_for_uvicorn_sees_every_request() -> None:
    seen: list[str] = []

    async def scenario() -> None:
        async with wired(Model(), wrap=lambda app: Seen(app, seen)) as service:
            await service.ask(post(ASKED))
            assert service.by_the_door == 0

    asyncio.run(scenario())
    assert "/predict" in seen


def test_with_the_door_open_an_owners_routes_state_and_mounted_applications_are_as_before() -> None:
    seen: list[str] = []

    async def inner(request: Request) -> PlainTextResponse:
        return PlainTextResponse("of the mounted one")

    def extend(app: FastAPI, service: Any) -> None:
        before = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, str]]:
            async with before(app):
                yield {"of": "the lifespan"}

        @app.get("/own")
        async def own(request: Request) -> str:
            return str(request.state.of)

        app.router.lifespan_context = lifespan
        layers = [StarletteMiddleware(Seen, seen=seen)]
        app.mount("/mounted", Starlette(routes=[Route("/predict", inner, methods=["POST"])], middleware=layers))

    async def scenario() -> None:
        async with wired(Model(), extend=extend) as service:
            assert b"predictions" in await service.ask(post(ASKED))
            assert service.by_the_door == 1
            assert b"of the mounted one" in await service.ask(post(ASKED, path="/mounted/predict"))
            assert b'"the lifespan"' in await service.ask(b"GET /own HTTP/1.1\r\nhost: x\r\n\r\n")

    asyncio.run(scenario())
    assert seen == ["/mounted/predict"]
