"""Clients that vanish, dawdle, send without end or ask for another protocol: the service goes on for the others."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime import raw
from tests.runtime.served import app_of, listening
from tests.runtime.standin_model import Model
from tests.runtime.test_own_routes import own_routes

TIMEOUT_SECONDS = 20


async def ask(port: int, request: bytes, until: int = -1) -> bytes:
    """Return what a new connection answers to some bytes: all until it is closed, or the first `until` bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(until), TIMEOUT_SECONDS)
    writer.close()
    return answer


def test_vanished_clients_are_not_computed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CALL_MS", "200")
    model = Model()
    app = app_of(model, max_batch_size=1)

    async def main() -> None:
        with listening(app) as port:
            first = asyncio.create_task(ask(port, raw.predict("first", headers="connection: close\r\n")))
            await asyncio.sleep(0.05)
            writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(20)]
            for writer in writers:
                writer.write(raw.predict("late"))
            while app.state.service.batcher.waiting < 20:
                await asyncio.sleep(0.01)
            for writer in writers:
                writer.close()
            assert b"200 OK" in await first
            assert b"200 OK" in await ask(port, raw.predict("after", headers="connection: close\r\n"))

    asyncio.run(main())
    assert model.batches.count(["late"]) <= 1, "at most one that had begun"
    assert app.state.service.batcher.waiting == 0


def test_slow_clients_get_408_and_do_not_slow_others() -> None:
    """On an owner's route too."""
    slow = [raw.predict("text")[:-1], raw.predict("text")[:-1].replace(b"/predict", b"/raw")]

    async def main() -> None:
        with listening(app_of(Model(), own_routes, body_seconds=0.5)) as port:
            waiting = [asyncio.create_task(ask(port, request, 1000)) for request in slow * 50]
            await asyncio.sleep(0.1)
            assert b"200 OK" in await ask(port, raw.predict("quick", headers="connection: close\r\n"))
            assert not any(one.done() for one in waiting)
            assert {answer[:12] for answer in await asyncio.gather(*waiting)} == {b"HTTP/1.1 408"}

    asyncio.run(main())


ASKED = b'{"texts": ["text"]}'
LIVE = b"GET /livez HTTP/1.1\r\nhost: x\r\n"


def upgrading(body: bytes, framing: bytes) -> bytes:
    """Return a request that asks for another protocol, as Java's HttpClient does by default."""
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    return head + b"http2-settings: AAMAAABk\r\ncontent-type: application/json\r\n" + framing + b"\r\n\r\n" + body


def test_a_client_that_asks_for_another_protocol_is_answered_in_http_1() -> None:
    """RFC 9110, section 7.8: a server may ignore it; the requests after it are answered too."""
    chunks = upgrading(b"%x\r\n%b\r\n0\r\n\r\n" % (len(ASKED), ASKED), b"transfer-encoding: chunked")

    async def main() -> None:
        with listening(app_of(Model())) as port:
            for request, predictions in (
                (upgrading(ASKED, b"content-length: %d" % len(ASKED)), 2),
                (chunks, 2),
                (LIVE + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n", 0),
            ):
                answer = await ask(port, request * 2 + LIVE + b"connection: close\r\n\r\n")
                assert answer.count(b"HTTP/1.1 200 OK") == 3, answer
                assert answer.count(b'"label"') == predictions
            large = await ask(port, upgrading(b"", b"content-length: 999999999"), 1000)
            assert large.startswith(b"HTTP/1.1 413"), "the body behind it has its limits"

    asyncio.run(main())
