"""Clients that vanish, dawdle, send without end or ask for another protocol: the service goes on for the others."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import raw
from tests.runtime.services import Process

Start = Callable[..., Any]


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


def upgrading(body: bytes, framing: bytes, protocol: bytes = b"h2c") -> bytes:
    """Return a request that asks for another protocol, as Java's HttpClient does by default."""
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: %b\r\n" % protocol
    return head + b"http2-settings: AAMAAABk\r\ncontent-type: application/json\r\n" + framing + b"\r\n\r\n" + body


ASKED = b'{"texts": ["text"]}'
UPGRADES = {
    "with its length": upgrading(ASKED, b"content-length: %d" % len(ASKED)),
    "in chunks": upgrading(b"%x\r\n%b\r\n0\r\n\r\n" % (len(ASKED), ASKED), b"transfer-encoding: chunked"),
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


@pytest.mark.parametrize("case", UPGRADES)
def test_a_client_that_asks_for_another_protocol_is_answered_in_http_1(upgraded: Process, case: str) -> None:
    """RFC 9110, section 7.8: a server may ignore it; the requests after it are answered too."""
    requests = UPGRADES[case] * 2 + b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with raw.connect(upgraded) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(requests)
        answer = raw.read(connection)
    assert answer.count(b"HTTP/1.1 200 OK") == 3, answer
    assert answer.count(b'"label"') == (0 if case == "without a body" else 2)


def test_the_body_behind_an_upgrade_has_its_limits(upgraded: Process) -> None:
    large = upgrading(b"", b"content-length: 999999999")
    with raw.connect(upgraded) as connection:
        connection.sendall(large)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
