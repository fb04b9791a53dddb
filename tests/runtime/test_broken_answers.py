"""An answer of an owner's route that breaks off: its client sees that it is not whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from gpu_repo_runtime.serving.app import Extend
from gpu_repo_runtime.serving.service import Service

from tests.runtime.served import app_of, listening
from tests.runtime.standin_model import Model

END = b"0\r\n\r\n"


def routes(app: FastAPI, service: Service) -> None:
    @app.get("/{how}")
    async def pieces(how: str) -> Any:
        async def some() -> AsyncIterator[bytes]:
            yield b"one"
            if how == "raises":
                raise RuntimeError("broken")
            if how == "model":
                await service.predict(["poison"])

        return StreamingResponse(some())


def behind_middleware(app: FastAPI, service: Service) -> None:
    routes(app, service)
    app.middleware("http")(lambda request, call_next: call_next(request))


async def ask(port: int, path: str) -> bytes:
    """Return all that one connection gives for two requests. They are sent at once: a later one may meet a reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    both = f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n" + "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    writer.write(both.encode())
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


@pytest.mark.parametrize("extend", [routes, behind_middleware])
def test_only_a_whole_answer_has_an_end(extend: Extend) -> None:
    async def main() -> None:
        with listening(app_of(Model(), extend)) as port:
            for path in ("/raises", "/model"):
                answer = await ask(port, path)
                assert (b"one" in answer, END in answer) == (True, False), answer
                assert answer.count(b"HTTP/1.1") == 1, "nothing follows on this connection"
            whole = await ask(port, "/whole")
            assert (END in whole, whole.count(b"HTTP/1.1 200")) == (True, 2)

    asyncio.run(main())
