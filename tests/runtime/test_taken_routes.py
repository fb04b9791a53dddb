"""What an owner does to the routes of the service has its effect: nothing answers a path in the owner's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request, WebSocket
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving import hooks
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.errors import StartRefused
from gpu_repo_runtime.serving.service import Service
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.websockets import WebSocketDisconnect

from tests.runtime.kinds import KINDS, model
from tests.runtime.owners import ASKED, Extend, Settings, client_of, with_token

V1 = "/v1/models/kind:predict"


def without(app: FastAPI, path: str) -> None:
    app.router.routes[:] = [route for route in app.routes if getattr(route, "path", "") != path]


async def mine(request: Request) -> PlainTextResponse:
    return PlainTextResponse("mine", 418)


class Around:
    """An application around another one that answers in its place."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            return await PlainTextResponse("mine", 418)(scope, receive, send)
        await self.app(scope, receive, send)


def another_in_its_place(app: FastAPI, service: Service) -> None:
    without(app, "/predict")
    app.add_api_route("/predict", mine, methods=["POST"])


def before_it(app: FastAPI, service: Service) -> None:
    app.router.routes.insert(0, Mount("/", routes=[Route("/predict", mine, methods=["POST"])]))


def around_its_route(app: FastAPI, service: Service) -> None:
    for route in app.routes:
        if getattr(route, "path", "") == "/predict":
            route.app = Around(route.app)  # type: ignore[attr-defined]


def around_the_router(app: FastAPI, service: Service) -> None:
    app.router.middleware_stack = Around(app.router.middleware_stack)


@pytest.mark.parametrize("how", [another_in_its_place, before_it, around_its_route, around_the_router])
def test_an_owner_who_takes_predict_over_answers_it(how: Extend) -> None:
    with client_of(how) as client:
        assert client.post("/predict", json=ASKED).text == "mine"


def test_a_path_that_an_owner_takes_away_is_gone() -> None:
    with client_of(lambda app, _: without(app, V1)) as client:
        assert client.post(V1, json=ASKED).status_code == 404
        assert client.post("/predict", json=ASKED).json() == {"predictions": [5.0]}


def included(app: FastAPI, service: Service) -> None:
    router = APIRouter(prefix="/v1")
    router.add_api_route("/models", mine, methods=["GET"])
    app.include_router(router)


def inserted(app: FastAPI, service: Service) -> None:
    app.router.routes.insert(0, Route("/livez", mine, methods=["GET"]))


@pytest.mark.parametrize(("how", "named"), [(included, "GET /v1/models"), (inserted, "GET /livez")])
def test_a_route_beside_the_services_own_is_refused_by_its_own_name(how: Extend, named: str) -> None:
    with pytest.raises(StartRefused, match=f"{named} is the service's own"):
        client_of(how)


def test_routes_of_an_included_router_leave_the_short_way_open() -> None:
    def extend(app: FastAPI, service: Service) -> None:
        router = APIRouter(prefix="/own")
        router.add_api_route("/mine", mine, methods=["GET"])
        app.include_router(router)

    answers: list[Callable[..., Any]] = []
    app = create_app(model(KINDS["row"]), Settings(device="cpu"), extend=extend)
    [answers] = [layer.kwargs["answers"] for layer in app.user_middleware if "answers" in layer.kwargs]  # type: ignore[misc]
    assert set(answers) == {"/predict", V1}
    with TestClient(app) as client:
        assert client.get("/own/mine").text == "mine"


def test_a_websocket_needs_the_bearer_token_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks.importlib.util, "find_spec", lambda _: True)

    def extend(app: FastAPI, service: Service) -> None:
        with_token(app, service)

        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            await socket.accept()
            await socket.send_json(await service.predict([[1.0, 1.0]]))

    with client_of(extend) as client:
        for wrong in ({}, {"authorization": "Bearer other"}):
            with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws", headers=wrong):
                pass
        with client.websocket_connect("/ws", headers={"authorization": "Bearer open sesame"}) as socket:
            assert socket.receive_json() == [5.0]
