"""An owner's routes and middleware: the limits, refusals and waits of the service hold there too."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from gpu_repo_runtime.inputs import InvalidInput
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.service import Service
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.runtime.kinds import ROW
from tests.runtime.served import app_of, serve

ASKED = {"instances": [[1.0, 1.0]]}
JSON = {"content-type": "application/json"}


class Body(BaseModel):
    name: str
    more: dict[str, int] = {}


def reject() -> None:
    raise InvalidInput("too cold")


def own_routes(app: FastAPI, service: Service) -> None:
    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/typed")
    async def typed(body: Body) -> str:
        return body.name

    @app.get("/rejects")
    async def rejects() -> None:
        await service.run(reject)

    @app.get("/ends")
    async def ends() -> None:
        raise SystemExit(0)

    @app.get("/cancelled")
    async def cancelled() -> None:
        raise asyncio.CancelledError

    @app.get("/refuses/{status}")
    async def refuses(status: int) -> None:
        raise HTTPException(status, {"left": ["gpu", 1]})

    @app.get("/soon")
    async def soon() -> str:
        try:
            async with asyncio.timeout(0.05):
                await service.run(time.sleep, 0.5)
        except TimeoutError:
            return f"{service.batcher.queue.count} wait"
        return "in time"


def test_an_owners_route_has_the_limits_of_a_body() -> None:
    with serve(ROW, own_routes, max_body_bytes=1000) as client:
        assert client.post("/raw", content=b"x" * 1000).json() == 1000
        for path in ("/raw", "/typed"):
            large = client.post(path, content=b"x" * 1001, headers=JSON)
            assert (large.status_code, large.json()["code"]) == (413, "body_too_large"), path


class ReadsAll(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Any) -> Response:
        self.read = len(await request.body())
        response: Response = await call_next(request)
        return response


def slow(app: FastAPI, path: str) -> tuple[int, dict[str, Any]]:
    """Return the answer to a client that stops in the middle of its body."""
    sent: list[Any] = []
    pieces = [{"type": "http.request", "body": b"abc", "more_body": True}]

    async def main() -> None:
        async def receive() -> Any:
            return pieces.pop() if pieces else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"content-length", b"100")]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        await app({**scope, "headers": headers, "http_version": "1.1", "scheme": "http"}, receive, send)

    asyncio.run(main())
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.parametrize("path", ["/raw", "/typed", "/predict"])
def test_a_client_that_stops_within_its_body_is_told(path: str) -> None:
    def extend(app: FastAPI, service: Service) -> None:
        own_routes(app, service)
        if path == "/predict":
            app.add_middleware(ReadsAll)

    status, body = slow(app_of(ROW, extend, body_seconds=0.05), path)
    assert (status, body["code"]) == (408, "body_too_slow")


def test_an_owners_route_refuses_as_predict_does_and_repeats_nothing() -> None:
    with serve(ROW, own_routes) as client:
        wrong = client.post("/typed", json={"name": ["secret"], "more": {"key": "secret"}})
        assert (wrong.status_code, wrong.headers["content-type"]) == (422, "application/problem+json")
        assert [fault["field"] for fault in wrong.json()["errors"]] == ["body.name", "body.more.key"]
        assert (wrong.json()["code"], "secret" in wrong.text) == ("invalid_request", False)
        rejected = client.get("/rejects")
        assert (rejected.status_code, rejected.json()["code"]) == (422, "invalid_request")
        assert rejected.json()["detail"] == "too cold"
        shown = client.get("/openapi.json").json()["paths"]["/typed"]["post"]["responses"]["422"]["content"]
        assert shown["application/problem+json"]["schema"]["$ref"].endswith("/Problem"), "generated clients read it"
        conflict = client.get("/refuses/409")
        assert (conflict.status_code, json.loads(conflict.json()["detail"])) == (409, {"left": ["gpu", 1]})
        for status in (204, 304):
            empty = client.get(f"/refuses/{status}")
            assert (empty.status_code, empty.content) == (status, b"")
        for path in ("/ends", "/cancelled"):
            ends = client.get(path)
            assert (ends.status_code, ends.json()["code"]) == (500, "internal"), path
        assert client.get("/soon").json() == "0 wait", "it waits no longer than it wants"
        service: Service = client.app.state.service  # type: ignore[attr-defined]
        assert service.unfinished == 0, "what the owner's code cancels is not a request that the end cut off"
        assert client.post("/predict", json=ASKED).status_code == 200


def test_what_is_to_run_at_the_start_and_never_would_is_refused() -> None:
    for event in ("on_startup", "on_shutdown"):

        def extend(app: FastAPI, service: Service, event: str = event) -> None:
            getattr(app.router, event).append(print)

        with pytest.raises(StartRefused, match="write a lifespan around"):
            app_of(ROW, extend)


class Seen:
    """Keeps the status of each answer that passes."""

    statuses: list[int]

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                Seen.statuses.append(message["status"])
            await send(message)

        await self.app(scope, receive, seen)


def test_a_middleware_sees_every_answer_errors_included() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        app.add_middleware(Seen)
        app.add_middleware(CORSMiddleware, allow_origins=["https://shop.example"])

    requests: list[tuple[dict[str, Any], int]] = [
        ({"json": ASKED}, 200),
        ({"json": {}}, 422),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415),
        ({"content": b"x" * 3000, "headers": JSON}, 413),
        ({"content": (b"x" * 1000 for _ in range(3)), "headers": JSON}, 413),
    ]
    with serve(ROW, extend, max_body_bytes=2000) as client:
        client.headers["origin"] = "https://shop.example"
        for about, status in requests:
            Seen.statuses = []
            answer = client.post("/predict", **about)
            assert (answer.status_code, Seen.statuses) == (status, [status]), answer.text
            assert answer.headers["access-control-allow-origin"] == "https://shop.example"


class Replays:
    """Reads the body and gives it to whoever asks, as often as that may be: many a middleware is written like this."""

    given = 0

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"") if scope["type"] == "http" else b""

        async def again() -> Any:
            Replays.given += 1
            if Replays.given > 100:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again if scope["type"] == "http" else receive, send)


def test_a_middleware_that_gives_the_body_again_and_again_does_not_stop_the_service() -> None:
    with serve(ROW, lambda app, _: app.add_middleware(Replays)) as client:
        assert client.post("/predict", json=ASKED).status_code == 200
    assert Replays.given <= 2


def test_a_mounted_application_is_found_with_and_without_a_gateways_path() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        own = FastAPI()
        own.add_api_route("/page", lambda: "own")
        app.mount("/ui", own)

    with serve(ROW, extend, root_path="/nlp") as client:
        for path in ("/ui/page", "/nlp/ui/page"):
            assert client.get(path).json() == "own", path
