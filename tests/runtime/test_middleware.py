"""The owner's middleware sees every answer, errors included."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from gpu_repo_runtime.serving.service import Service
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.runtime.owners import ASKED, client_of

JSON = {"content-type": "application/json"}
REQUESTS: dict[str, tuple[dict[str, Any], int]] = {
    "predictions": ({"json": ASKED}, 200),
    "invalid": ({"json": {}}, 422),
    "no JSON": ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415),
    "too large": ({"content": b"x" * 3000, "headers": JSON}, 413),
    "too large in pieces": ({"content": (b"x" * 1000 for _ in range(3)), "headers": JSON}, 413),
    "the model fails": ({"json": {"instances": [[1.0, float(10**300), 1e300]]}}, 200),
}


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


@pytest.mark.parametrize("case", REQUESTS)
def test_each_answer_passes(case: str) -> None:
    def extend(app: FastAPI, service: Service) -> None:
        app.add_middleware(Seen)
        app.add_middleware(CORSMiddleware, allow_origins=["https://shop.example"])

    Seen.statuses = []
    about, status = REQUESTS[case]
    with client_of(extend, max_body_bytes=2000) as client:
        client.headers["origin"] = "https://shop.example"
        answer = client.post("/predict", **about)
    assert (answer.status_code, Seen.statuses) == (status, [status]), answer.text
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
