"""How connections end: at SIGTERM, after a refusal, with a client that does not read or sends no more."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

import pytest

from tests.runtime import raw
from tests.sampling import sampled

Start = Callable[..., Any]


def test_clients_that_wait_in_the_listeners_queue_are_answered(start: Start) -> None:
    """They are accepted by the kernel while the event loop does not run at all, and SIGTERM comes before it does."""
    service = start()
    service.popen.send_signal(signal.SIGSTOP)
    waiting = [raw.connect(service) for _ in range(200)]
    for connection in waiting:
        connection.sendall(raw.predict("text", headers="connection: close\r\n"))
    service.terminate()
    service.popen.send_signal(signal.SIGCONT)
    answers = [raw.read(connection) for connection in waiting]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200"}
    assert service.exit_code(10) == 0


@pytest.mark.parametrize("begun", sampled(["", "POST /pre", "POST /predict HTTP/1.1\r\nhost: x\r\n"], ["POST /pre"]))
def test_a_request_that_comes_in_pieces_around_sigterm_is_answered(start: Start, begun: str) -> None:
    service = start()
    with raw.connect(service) as connection:
        connection.sendall(begun.encode())
        service.terminate()
        time.sleep(0.7)
        connection.sendall(raw.predict("text")[len(begun) :])
        answer = raw.read(connection)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b"connection: close" in answer
    assert service.exit_code(10) == 0


@pytest.mark.slow
def test_open_connections_do_not_keep_the_process(start: Start) -> None:
    """The process is gone when its answers are sent, whoever still keeps a connection open."""
    service = start()
    idle = [raw.connect(service) for _ in range(20)]
    answer = HTTPResponse(idle[0])
    idle[0].sendall(raw.predict("text"))
    answer.begin()
    assert (answer.status, bool(answer.read())) == (200, True)
    service.terminate()
    assert service.exit_code(6) == 0
    for connection in idle:
        assert connection.recv(10) == b""
        connection.close()


@pytest.mark.parametrize("stops", sampled([1, 8], [1]))
def test_no_request_on_a_kept_connection_is_lost_while_the_service_stops(start: Start, stops: int) -> None:
    """Each client sends one request after the other until an answer closes the connection."""

    def client(service: Any, sent: list[int]) -> str:
        connection = HTTPConnection("127.0.0.1", service.port, timeout=raw.DEADLINE_SECONDS)
        while True:
            sent[0] += 1
            try:
                connection.request("POST", "/predict", '{"texts": ["text"]}', {"content-type": "application/json"})
                answer = connection.getresponse()
                status = answer.status if answer.read() else 0
            except (OSError, HTTPException) as error:
                return f"{type(error).__name__} after {sent[0]} requests"
            if status != 200 or answer.getheader("connection") == "close":
                return str(status)

    for _ in range(stops):
        service, sent = start(STANDIN_CALL_MS="3"), [0]
        with ThreadPoolExecutor() as pool:
            clients = [pool.submit(client, service, sent) for _ in range(16)]
            time.sleep(0.5)
            service.terminate()
            assert {one.result() for one in clients} == {"200"}, f"{sent[0]} requests"
        assert service.exit_code(10) == 0
