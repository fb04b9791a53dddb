"""The short way of plain requests: what goes in by it and what does not, and that nobody can tell the difference."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
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
from tests.runtime.wired import Wired, wired


def post(body: Any, *headers: str, path: str = "/predict", version: str = "1.1", length: bool = True) -> bytes:
    """Return the bytes of a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = [header.partition(":")[0].lower() for header in headers]
    more = [] if "host" in given else ["host: x"]
    more += [] if "content-type" in given else ["content-type: application/json"]
    more += [f"content-length: {len(content)}"] if length else []
    head = "\r\n".join([f"POST {path} HTTP/{version}", *more, *headers])
    return f"{head}\r\n\r\n".encode() + content


ASKED = {"texts": ["a", "b"]}
PLAIN = {
    "texts": post(ASKED),
    "instances": post({"instances": ["one", "two", "three"], "parameters": None}),
    "in the V1 protocol": post({"instances": ["a"]}, path="/v1/models/tests:predict"),
    "a charset": post(ASKED, "content-type: Application/JSON; charset=utf-8"),
    "an id": post(ASKED, "x-request-id: from-the-client.1"),
    "an id that cannot be used": post(ASKED, "x-request-id: a b"),
    "other headers": post(ASKED, "accept: */*", "user-agent: test", "connection: keep-alive"),
    "an empty host": post(ASKED, "host:"),
    "not finite": post({"texts": ["nan"]}),
    "one after the other": post({"texts": ["a"]}) + post({"texts": ["b"]}) + post({"texts": ["c"]}),
}
NOT_PLAIN = {
    "no host": post(ASKED, "host:").replace(b"host:\r\n", b""),
    "two hosts": post(ASKED, "host: a", "host: b"),
    "no host of any kind": post(ASKED, "host: a b"),
    "a header twice": post(ASKED, "x-request-id: a", "x-request-id: b"),
    "compressed": post(ASKED, "content-encoding: gzip"),
    "as it is": post(ASKED, "content-encoding: identity"),
    "no type": post(ASKED, "content-type:"),
    "another type": post(ASKED, "content-type: text/plain"),
    "two types": post(ASKED, "content-type: application/json", "content-type: text/plain"),
    "in chunks": post(
        b"f\r\n" + json.dumps({"texts": ["a"]}).encode() + b"\r\n0\r\n\r\n", "transfer-encoding: chunked", length=False
    ),
    "an expectation": post(ASKED, "expect: 100-continue"),
    "an upgrade": post(ASKED, "upgrade: h2c", "connection: upgrade"),
    "the last one": post(ASKED, "connection: close"),
    "HTTP/1.0": post(ASKED, version="1.0"),
    "HTTP/1.0, kept": post(ASKED, "connection: keep-alive", version="1.0"),
    "no body": post(b""),
    "no length": post(b"", length=False),
    "a query": post(ASKED, path="/predict?a=b"),
    "a fragment": post(ASKED, path="/predict#a"),
    "an escaped path": post(ASKED, path="/predic%74"),
    "a whole address": post(ASKED, path="http://x/predict"),
    "another path": post(ASKED, path="/predict/"),
    "another method": post(ASKED).replace(b"POST", b"PUT"),
    "another method that has no body": b"GET /predict HTTP/1.1\r\nhost: x\r\n\r\n",
    "too large": post({"texts": ["a" * 3000]}),
}
WRONG = {
    "no JSON": post(b"{"),
    "a wrong field": post({"instances": [1]}),
    "an unknown field": post({"instances": ["a"], "secret": 1}),
    "a wrong text": post({"texts": [""]}),
    "a text that fails": post({"texts": ["a", "poison"]}),
    "an input that fails": post({"instances": ["poison"]}),
    "more than fit": post({"texts": ["a"] * 9}),
}


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What the log says of each request, but for times."""
    found: list[dict[str, Any]] = []
    logger, handler = logging.getLogger("request"), logging.Handler()
    timed = {"ms", "queue_ms", "request_id"}
    handler.emit = lambda record: found.append(  # type: ignore[method-assign]
        {"level": record.levelname, **{name: value for name, value in record.fields.items() if name not in timed}}  # type: ignore[attr-defined]
    )
    logger.addHandler(handler)
    before, level = logger.level, logging.INFO
    logger.setLevel(level)
    yield found
    logger.setLevel(before)
    logger.removeHandler(handler)


async def observed(asked: tuple[bytes, ...], lines: list[Any], *, door: bool) -> tuple[list[Any], int]:
    """Return all that can be seen of a request, and how often the door took one."""
    lines.clear()
    async with wired(Model(), door=door, max_texts=8, max_body_bytes=2000) as service:
        answer = await service.ask(*asked)
        answer = re.sub(rb'(x-request-id: |"request_id":")[0-9a-f]{24}', rb"\1made", answer)
        held = service.service.batcher.queue.depth, len(service.state.tasks)
    for thread in threading.enumerate():
        if thread.name == "model":  # which counts after it has answered
            thread.join(20)
    counts = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in service.service.metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("service_") and sample.name.endswith(("_total", "_count"))
    }
    return [answer, sorted(lines, key=str), counts, held], service.by_the_door


@pytest.mark.parametrize(("asked", "goes_in"), [
    *[pytest.param((asked,), True, id=name) for name, asked in (PLAIN | WRONG).items()],
    *[pytest.param((asked,), False, id=name) for name, asked in NOT_PLAIN.items()],
    pytest.param((post(ASKED)[:-5], post(ASKED)[-5:]), False, id="in two pieces, the body cut"),
    pytest.param((post(ASKED)[:30], post(ASKED)[30:]), True, id="in two pieces, the head cut"),
    pytest.param((post(ASKED), post(ASKED)), True, id="two times"),
])  # fmt: skip
def test_nobody_can_tell_which_way_a_request_went(
    asked: tuple[bytes, ...], goes_in: bool, lines: list[dict[str, Any]]
) -> None:
    by_the_door, count = asyncio.run(observed(asked, lines, door=True))
    without, _ = asyncio.run(observed(asked, lines, door=False))
    assert by_the_door == without
    assert bool(count) == goes_in


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


class Held(Model):
    """Holds every call until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.open, self.warm = threading.Event(), threading.Event(), False

    def predict(self, batch: list[str]) -> list[dict]:
        if "one" not in batch:  # the warm-up
            self.entered.set()
            assert self.open.wait(20)
        return super().predict(batch)


@asynccontextmanager
async def held(**settings: Any) -> AsyncIterator[tuple[Wired, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve a model that has a request and holds it."""
    stand_in = Held()
    async with wired(stand_in, **settings) as service:
        reader, writer = await service.connect()
        writer.write(post({"texts": ["held"]}))
        await asyncio.to_thread(stand_in.entered.wait, 20)
        assert service.by_the_door == 1
        yield service, reader, writer
        stand_in.open.set()
        writer.close()


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, Any]]:
    """Return status, head and body of an answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    [length] = re.findall(rb"content-length: (\d+)", head)
    return int(head[9:12]), head, json.loads(await reader.readexactly(int(length)))


def test_what_takes_too_long_has_504_and_is_no_longer_held(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held(request_seconds=0.2) as (service, reader, _):
            status, _, body = await answered(reader)
            assert (status, body["code"]) == (504, "deadline_exceeded")
            assert not service.state.tasks
            assert not service.service.batcher.queue.calls

    asyncio.run(scenario())
    assert [line["status"] for line in lines] == [504]


def test_what_waits_for_a_client_who_has_gone_is_dropped(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held() as (service, _, first):
            _, second = await service.connect()
            second.write(post({"texts": ["a"] * 3}))
            while service.service.batcher.queue.count < 3:
                await asyncio.sleep(0.001)
            for writer in (first, second):
                writer.transport.abort()
            while len(lines) < 2:
                await asyncio.sleep(0.001)
            assert (service.service.batcher.queue.count, service.state.tasks) == (0, set())

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert [line["status"] for line in lines] == [499, 499]


def test_who_goes_with_many_requests_under_way_costs_no_other_client_its_answer() -> None:
    async def scenario() -> None:
        async with held() as (service, _, first):
            _, leaves = await service.connect()
            leaves.write(post({"texts": ["b"]}) + post({"texts": ["c"]}))
            reader, stays = await service.connect()
            while service.by_the_door < 2:
                await asyncio.sleep(0.001)
            stays.write(post({"texts": ["d"]}))
            while service.service.batcher.queue.count < 2:
                await asyncio.sleep(0.001)
            leaves.transport.abort()
            await asyncio.sleep(0.05)
            service.service.model.open.set()  # type: ignore[attr-defined]
            assert (await answered(reader))[0] == 200
            first.close(), stays.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_full_queue_is_said(lines: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with held() as (service, *_):
            service.service.batcher.queue.count = service.service.settings.max_queue
            answer = await service.ask(post(ASKED))
            service.service.batcher.queue.count = 0
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: " in answer

    asyncio.run(scenario())
    assert 503 in [line["status"] for line in lines]


def test_when_the_time_to_stop_is_over_who_waits_is_told() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            assert len(service.state.tasks) == 1, "uvicorn would not wait for it"
            for task in service.state.tasks:
                task.cancel(msg="as uvicorn does")
            status, _, body = await answered(reader)
            assert (status, body["code"], service.service.unfinished) == (503, "not_ready", 1)

    asyncio.run(scenario())


def test_while_the_service_drains_each_answer_is_the_last_of_its_connection() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            service.service.drain()
            service.service.model.open.set()  # type: ignore[attr-defined]
            status, head, _ = await answered(reader)
            assert (status, b"\r\nconnection: close\r\n" in head) == (200, True)
            assert await reader.read() == b""

    asyncio.run(scenario())


@pytest.mark.parametrize("door", [True, False])
def test_a_connection_is_closed_when_it_was_silent_for_long_and_not_before(door: bool) -> None:
    async def scenario() -> None:
        async with wired(Model(), door=door, keep_alive=0.4) as service:
            reader, writer = await service.connect()
            for _ in range(4):
                writer.write(post(ASKED))
                assert (await answered(reader))[0] == 200
                await asyncio.sleep(0.2)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()

    asyncio.run(scenario())


def test_a_connection_has_one_timer_for_all_its_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with wired(Model()) as service:
            later, calls = asyncio.get_running_loop().call_later, []
            monkeypatch.setattr(
                asyncio.get_running_loop(), "call_later", lambda *about: calls.append(about) or later(*about)
            )
            reader, writer = await service.connect()
            for _ in range(20):
                writer.write(post(ASKED))
                await answered(reader)
            assert [seconds for seconds, *_ in calls].count(75) == 1
            writer.close()

    asyncio.run(scenario())


def test_of_what_was_answered_a_waiting_connection_holds_nothing() -> None:
    async def scenario() -> None:
        async with held() as (service, reader, _):
            [call] = service.service.batcher.queue.calls
            exchange = call.done
            service.service.model.open.set()  # type: ignore[attr-defined]
            await answered(reader)
            assert (exchange.call, exchange.body, exchange.when_gone) == (None, b"", None)

    asyncio.run(scenario())
