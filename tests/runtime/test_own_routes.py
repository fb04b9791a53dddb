"""An owner's routes and middleware: the limits and refusals of the service hold there too."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.cors import CORSMiddleware
from gpu_repo_runtime.inputs import InvalidInput
from gpu_repo_runtime.serving.service import Service
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.runtime.kinds import ROW
from tests.runtime.served import serve

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

    @app.get("/refuses/{status}")
    async def refuses(status: int) -> None:
        raise HTTPException(status, {"left": ["gpu", 1]})


def test_an_owners_route_has_the_limits_of_a_body() -> None:
    with serve(ROW, own_routes, max_body_bytes=1000) as client:
        assert client.post("/raw", content=b"x" * 1000).json() == 1000
        for path in ("/raw", "/typed"):
            large = client.post(path, content=b"x" * 1001, headers=JSON)
            assert (large.status_code, large.json()["code"]) == (413, "body_too_large"), path


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
