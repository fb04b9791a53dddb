"""An answer of an owner's route that breaks off: its client sees that it is not whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from gpu_repo_runtime.serving.service import Service

from tests.runtime.sockets import served
from tests.runtime.standin_model import Model
from tests.sampling import sampled

END = b"0\r\n\r\n"


def passes_on(app: FastAPI) -> None:
    @app.middleware("http")
    async def own(request: Request, call_next: Callable[[Request], Any]) -> Any:
        return await call_next(request)


def replaces(app: FastAPI) -> None:
    @app.middleware("http")
    async def own(request: Request, call_next: Callable[[Request], Any]) -> Any:
        try:
            return await call_next(request)
        except KeyError:
            return JSONResponse("in other words", 400)


MIDDLEWARE: dict[str, Callable[[FastAPI], None]] = {
    "none": lambda app: None,
    "one": passes_on,
    "one that replaces errors": replaces,
}


def routes(app: FastAPI, service: Service) -> None:
    @app.get("/raises")
    async def raises() -> Any:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            raise RuntimeError("broken")

        return StreamingResponse(pieces())

    @app.get("/model")
    async def model() -> Any:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            await service.predict(["poison"])

        return StreamingResponse(pieces())

    @app.get("/whole")
    async def whole() -> Any:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"

        return StreamingResponse(pieces())

    @app.get("/refuses")
    async def refuses() -> Any:
        raise HTTPException(418, "a teapot")

    @app.get("/fails")
    async def fails() -> Any:
        raise KeyError("at once")


async def ask(path: str, extend: Callable[[FastAPI], None]) -> bytes:
    def all_of_it(app: FastAPI, service: Service) -> None:
        routes(app, service)
        extend(app)

    async with served(Model(), all_of_it) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer


@pytest.mark.parametrize(
    ("path", "middleware"),
    sampled(
        [(path, name) for path in ("/raises", "/model") for name in MIDDLEWARE],
        [("/raises", "one"), ("/model", "none")],
    ),
)
def test_an_answer_that_breaks_off_has_no_end(path: str, middleware: str) -> None:
    answer = asyncio.run(ask(path, MIDDLEWARE[middleware]))
    assert b"one" in answer
    assert END not in answer, answer
    assert answer.count(b"HTTP/1.1") == 1, "nothing follows on this connection"


@pytest.mark.parametrize("middleware", sampled(MIDDLEWARE, ["one that replaces errors"]))
def test_a_whole_answer_has_its_end_and_the_next_request_its_answer(middleware: str) -> None:
    answer = asyncio.run(ask("/whole", MIDDLEWARE[middleware]))
    assert END in answer
    assert answer.count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("middleware", sampled(MIDDLEWARE, ["one that replaces errors"]))
def test_what_fails_before_its_answer_began_is_told(middleware: str) -> None:
    assert b"a teapot" in asyncio.run(ask("/refuses", MIDDLEWARE[middleware]))
    failed = asyncio.run(ask("/fails", MIDDLEWARE[middleware]))
    told = b"in other words" if middleware == "one that replaces errors" else b'"code":"internal"'
    assert told in failed
    assert failed.count(b"HTTP/1.1") == 2
