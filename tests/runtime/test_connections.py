"""Clients that vanish, dawdle, send without end or ask for another protocol: the service goes on for the others."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.runtime import raw
from tests.runtime.services import Process
from tests.sampling import sampled

Start = Callable[..., Any]


@pytest.mark.slow
def test_vanished_clients_are_not_computed_for(start: Start) -> None:
    service = start(STANDIN_CALL_MS="400", MAX_BATCH_SIZE="1")
    body = json.dumps({"texts": ["text"]}).encode()
    head = f"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(service.predict, "first")
        time.sleep(0.15)
        before = service.metric("service_model_seconds_count")
        sockets = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(20)]
        for connection in sockets:
            connection.sendall(head.encode() + body)
        service_sees = time.monotonic() + 2
        while service.metric("service_queue_depth") < 20 and time.monotonic() < service_sees:
            time.sleep(0.01)
        for connection in sockets:
            connection.close()
        running.result()
    assert service.predict("after")[0] == 200
    computed = service.metric("service_model_seconds_count") - before
    assert computed <= 3, f"first, after and at most one that had begun, but {computed:.0f} calls"
    assert service.metric("service_queue_depth") == 0


@pytest.mark.slow
def test_slow_clients_get_408_and_do_not_slow_others(start: Start) -> None:
    service = start(BODY_SECONDS="1")
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    sockets = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(100)]
    for connection in sockets:
        connection.sendall(head)
    started = time.monotonic()
    assert service.predict("quick")[0] == 200
    assert time.monotonic() - started < 0.5
    for connection in sockets:
        connection.settimeout(5)
        assert connection.recv(1000).startswith(b"HTTP/1.1 408"), "a slow body is given up"
        connection.close()


@pytest.mark.slow
def test_a_head_that_does_not_end_in_time_gets_408(start: Start) -> None:
    service = start(BODY_SECONDS="1")
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        for piece in (b"GET /livez HTTP/1.1\r\n", b"host: x\r\n", b"x-slow: ", b"and "):
            connection.sendall(piece)
            time.sleep(0.2)
        assert connection.recv(1000).startswith(b"HTTP/1.1 408"), "a slow head is given up"
        assert connection.recv(1000) == b"", "and its connection closed"


def test_a_connection_that_never_says_anything_is_given_up_like_an_idle_one(serving: Callable) -> None:
    async def scenario() -> bytes:
        config = uvicorn.Config(lambda: None, port=0, timeout_keep_alive=1, lifespan="off", log_config=None)
        config.http_protocol_class = serving("protocol").http_protocol(serving("connection").Limits(60))
        config.loaded, config.loaded_app = True, config.app
        server = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config, uvicorn.server.ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            said = await asyncio.wait_for(reader.read(), 5)
            writer.close()
        return said

    assert asyncio.run(scenario()) == b""


@pytest.mark.slow
@pytest.mark.parametrize("where", sampled(["head", "trailer"], ["head"]))
def test_what_is_not_body_has_a_limit_too(start: Start, where: str) -> None:
    """One client that sends a header without end must not fill the memory."""
    service = start()
    before = resident(service)
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    body = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    answer = b""
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(head + (body if where == "trailer" else b"") + b"x-long: ")
        try:
            for _ in range(500):
                connection.sendall(b"a" * 100_000)
            answer = connection.recv(1000)
        except OSError:
            answer = b"closed"
    assert answer.startswith(b"HTTP/1.1 431"), answer
    assert resident(service) - before < 5, "50 MB were sent and must not be kept"
    assert service.predict("after")[0] == 200
    assert "431" in service.log.read_text()


def resident(service: Any) -> float:
    """Return the memory of the process in MB."""
    return int(Path(f"/proc/{service.popen.pid}/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.slow
def test_a_large_body_in_the_smallest_chunks_is_no_long_head(start: Start) -> None:
    service = start()
    body = json.dumps({"texts": ["x" * 9000] * 8}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(head)
        connection.sendall(chunks)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_late_body_ends_its_connection(start: Start) -> None:
    service = start(BODY_SECONDS="0.5")
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n")
        connection.sendall(b"content-length: 9\r\n\r\n{")
        answer = b""
        while piece := connection.recv(1000):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408")


def upgrading(body: bytes, framing: bytes, protocol: bytes = b"h2c") -> bytes:
    """Return a request that asks for another protocol, as Java's HttpClient does by default."""
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: %b\r\n" % protocol
    return head + b"http2-settings: AAMAAABk\r\ncontent-type: application/json\r\n" + framing + b"\r\n\r\n" + body


ASKED = b'{"texts": ["text"]}'
UPGRADES = {
    "with its length": upgrading(ASKED, b"content-length: %d" % len(ASKED)),
    "in chunks": upgrading(b"%x\r\n%b\r\n0\r\n\r\n" % (len(ASKED), ASKED), b"transfer-encoding: chunked"),
    "to a websocket": upgrading(ASKED, b"content-length: %d" % len(ASKED), b"websocket"),
    "without a body": b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
}


@pytest.fixture(scope="module")
def upgraded(child: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Return a service for all requests that ask for another protocol."""
    service = Process(child, tmp_path_factory.mktemp("upgraded") / "log")
    service.wait_for("/readyz", 200)
    yield service
    service.popen.kill()
    service.popen.wait()


@pytest.mark.parametrize("size", [10**9, 40, 1])
@pytest.mark.parametrize("case", UPGRADES)
def test_a_client_that_asks_for_another_protocol_is_answered_in_http_1(upgraded: Process, case: str, size: int) -> None:
    """RFC 9110, section 7.8: a server may ignore it; the requests after it are answered too."""
    requests = UPGRADES[case] * 2 + b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with raw.connect(upgraded) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(requests), size):
            connection.sendall(requests[start : start + size])
        answer = raw.read(connection)
    assert answer.count(b"HTTP/1.1 200 OK") == 3, answer
    assert answer.count(b'"label"') == (0 if case == "without a body" else 2)


def test_the_body_behind_an_upgrade_has_its_limits(upgraded: Process) -> None:
    smuggled = upgrading(ASKED, b"content-length: 5\r\ntransfer-encoding: chunked")
    assert raw.ask(upgraded, smuggled).startswith(b"HTTP/1.1 400")
    large = upgrading(b"", b"content-length: 999999999")
    assert raw.ask(upgraded, large).startswith(b"HTTP/1.1 413")
    wrong = raw.ask(upgraded, upgrading(b"zz\r\n", b"transfer-encoding: chunked"))
    assert wrong.startswith(b"HTTP/1.1 400")
    assert wrong.count(b"HTTP/1.1") == 1


def test_a_tunnel_is_not_opened(upgraded: Process) -> None:
    answer = raw.ask(upgraded, b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\nGET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answer[9:12] in (b"400", b"404", b"405"), answer
    assert answer.count(b"HTTP/1.1") == 1


REFUSED = {
    "garbage": (b"garbage\r\n\r\n", 400, "bad_request"),
    "a long path": (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "url_too_long"),
    "a long head": (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431, "head_too_large"),
    "another version": (b"GET /livez HTTP/2.0\r\nhost: x\r\n\r\n", 505, "version_not_supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_ends_a_connection_says_so_like_every_other_error(upgraded: Process, case: str) -> None:
    """RFC 9110, section 6.6.1, asks for the date; support asks for the id, which the log has too."""
    request, status, code = REFUSED[case]
    head, _, body = raw.ask(upgraded, request).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    problem = json.loads(body)
    assert first.split()[1] == str(status)
    assert (problem["status"], problem["code"]) == (status, code)
    assert headers.keys() >= {"date", "content-type", "x-model-version"}
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body)
    assert headers["x-request-id"] == problem["request_id"]
    assert wait_for(lambda: problem["request_id"] in upgraded.log.read_text()), "the log names it"


def wait_for(seen: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Tell whether something is seen in time."""
    end = time.monotonic() + seconds
    while not seen() and time.monotonic() < end:
        time.sleep(0.01)
    return seen()


PIECES = {"at once": 10**9, "in two pieces": 60_000, "in many pieces": 5_000}
LARGE_HEADS = {
    "one long header": (b"GET /livez HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * 150_000 + b"\r\n\r\n", b"431"),
    "many long headers": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"x-y: %s\r\n" % (b"a" * 4000) * 30 + b"\r\n",
        b"431",
    ),
    "many headers": (b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 1000 + b"\r\n", b"431"),
    "a long path": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"414"),
    "a long query": (b"GET /livez?" + b"a" * 10_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"414"),
}


@pytest.mark.parametrize("size", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("case", sampled(LARGE_HEADS, ["one long header"]))
def test_a_large_head_is_refused_however_it_arrives(limited: Callable, case: str, size: int) -> None:
    """However the head is cut, the answer is the same, it arrives, and it is the last."""
    head, status = LARGE_HEADS[case]
    pieces = [head[start : start + size] for start in range(0, len(head), size)]
    answer = limited(pieces)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert answer.count(b"HTTP/1.1") == 1


def test_the_largest_head_that_is_taken_may_come_with_a_large_body(limited: Callable) -> None:
    head = b"POST /%s HTTP/1.1\r\nhost: x\r\nx-long: %s\r\ncontent-length: 200000\r\n\r\n" % (
        b"a" * 8000,
        b"a" * 50_000,
    )
    assert limited([head + b"x" * 200_000]).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("first", [b"GET /livez", b"GET /livez HTTP/0.9", b"GET /livez HTTP/2.0"])
def test_only_http_1_is_spoken(limited: Callable, first: bytes) -> None:
    assert limited([first + b"\r\n\r\n"])[9:12] in (b"505", b"400")


@pytest.fixture
def limited(serving: Callable) -> Callable[[list[bytes]], bytes]:
    """Return a function that gives what a server with the limits answers to pieces of bytes until it closes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"fine"})

    async def answer(pieces: list[bytes]) -> bytes:
        protocol = serving("protocol").http_protocol(serving("connection").Limits(60))
        config = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None)
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: protocol(config, uvicorn.server.ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
            said = await asyncio.wait_for(reader.read(), 20)
            writer.close()
        return said

    return lambda pieces: asyncio.run(answer(pieces))


@pytest.mark.slow
def test_empty_lines_alone_keep_no_connection(start: Start) -> None:
    service = start(BODY_SECONDS="0.5")
    with raw.connect(service) as connection:
        for _ in range(100):
            connection.sendall(b"\r\n")
            if select.select([connection], [], [], 0.05)[0]:
                break
        assert raw.read(connection) == b"", "closed within five seconds, and not answered"
    with raw.connect(service) as connection:
        connection.sendall(b"\r\n" + raw.predict("a", headers="connection: close\r\n"))
        assert raw.read(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_a_client_of_http_1_0_gets_no_interim_answer(start: Start) -> None:
    answer = raw.ask(start(), raw.predict("a", version="1.0", headers="expect: 100-continue\r\n"))
    assert answer.startswith(b"HTTP/1.1 200")
