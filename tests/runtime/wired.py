"""An application behind real connections, in this process: with the door that the server gives it, or without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.serving.connection import Limits
from gpu_repo_runtime.serving.door import Door
from gpu_repo_runtime.serving.hooks import build_middleware
from gpu_repo_runtime.serving.protocol import http_protocol
from gpu_repo_runtime.serving.settings import Settings

DATE = [(b"date", b"today")]
ASKED = {"texts": ["a", "b"]}


class Wired:
    """The application, how many requests went in by its door, and clients of it."""

    def __init__(self, app: FastAPI, address: tuple[str, int], state: uvicorn.server.ServerState) -> None:
        self.app, self.service, self.state = app, app.state.service, state
        self._address, self.by_the_door = address, 0
        self.door: Door | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return an open connection."""
        return await asyncio.open_connection(*self._address)

    async def ask(self, *pieces: bytes) -> bytes:
        """Return what a new connection answers to pieces of bytes and to a last request, until it closes."""
        reader, writer = await self.connect()
        for piece in (*pieces, CLOSING_REQUEST):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01 if len(pieces) > 1 else 0)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    def count(self, door: Door) -> None:
        """Count what goes in by the door."""
        self.door, take = door, door.take

        def counted(exchange: Any) -> None:
            self.by_the_door += 1
            take(exchange)

        door.take = counted  # type: ignore[method-assign]


CLOSING_REQUEST = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def wired(
    model: Any,
    *,
    extend: Callable[..., Any] | None = None,
    wrap: Callable[[Any], Any] = lambda app: app,
    door: bool = True,
    keep_alive: float = 75,
    **settings: Any,
) -> AsyncIterator[Wired]:
    """Serve a model; ``wrap`` is what something puts around the application that uvicorn calls."""
    app = create_app(model, Settings(device="cpu", **settings), extend=extend)
    build_middleware(app)
    way_in = Door(app, app.state.service) if door else None
    protocol = http_protocol(Limits(60), way_in)
    config = uvicorn.Config(
        wrap(app), http=protocol, lifespan="on", log_config=None, access_log=False, proxy_headers=False, ws="none"
    )
    config.load()
    config.timeout_keep_alive = keep_alive  # type: ignore[assignment]
    lifespan, state = config.lifespan_class(config), uvicorn.server.ServerState()
    state.default_headers = DATE
    await lifespan.startup()
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config, state, lifespan.state), "127.0.0.1", 0
    )
    async with server:
        found = Wired(app, server.sockets[0].getsockname(), state)
        if way_in:
            found.count(way_in)
        yield found
    await lifespan.shutdown()


def post(body: Any, *headers: str, path: str = "/predict", version: str = "1.1", length: bool = True) -> bytes:
    """Return the bytes of a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = [header.partition(":")[0].lower() for header in headers]
    more = [] if "host" in given else ["host: x"]
    more += [] if "content-type" in given else ["content-type: application/json"]
    more += [f"content-length: {len(content)}"] if length else []
    head = "\r\n".join([f"POST {path} HTTP/{version}", *more, *headers])
    return f"{head}\r\n\r\n".encode() + content
