"""A service in this process: around a model, with what an owner adds, behind a client or a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from gpu_repo_runtime.serving import settings as settings_module
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.server import ChooseParser
from gpu_repo_runtime.serving.service import Service
from pydantic import SecretStr

from tests.runtime.kinds import KINDS, model
from tests.runtime.standin_model import Model

Extend = Callable[[FastAPI, Service], Any]


class Settings(settings_module.Settings):
    """The settings of an owner."""

    api_token: SecretStr = SecretStr("open sesame")


def app_of(one: Any, extend: Extend | None = None, **settings: Any) -> FastAPI:
    """Return the service around a model, or around the source of its model.py."""
    made = model(one) if isinstance(one, str) else one
    return create_app(made, Settings(device="cpu", **settings), extend=extend)


def serve(one: Any, extend: Extend | None = None, **settings: Any) -> TestClient:
    """Return a client of it, which gets every error as an answer."""
    return TestClient(app_of(one, extend, **settings), raise_server_exceptions=False)


@contextmanager
def clients_of_kinds() -> Iterator[dict[str, TestClient]]:
    """Give a client of a service for each kind, and of one for texts."""
    found = {kind: serve(source, max_texts=8, max_body_bytes=5000) for kind, source in KINDS.items()}
    found["text"] = serve(Model(), model_name="standin")
    with ExitStack() as stack:
        for client in found.values():
            stack.enter_context(client)
        yield found


def asked_together(client: TestClient, *bodies: dict[str, Any]) -> list[httpx.Response]:
    """Return the answers to predictions that are asked for at the same time."""

    async def asked() -> list[httpx.Response]:
        transport = httpx.ASGITransport(client.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as one:
            return await asyncio.gather(*(one.post("/predict", json=body) for body in bodies))

    answers: list[httpx.Response] = client.portal.call(asked)  # type: ignore[union-attr]
    return answers


@contextmanager
def listening(app: FastAPI) -> Iterator[int]:
    """Serve an application on a socket, and give the port."""
    config = uvicorn.Config(app, "127.0.0.1", 0, http=ChooseParser, log_config=None, access_log=False)
    server, listener = uvicorn.Server(config), config.bind_socket()
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
