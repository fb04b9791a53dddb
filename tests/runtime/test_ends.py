"""How connections end: at SIGTERM, after a refusal, with a client that does not read or sends no more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import raw
from tests.sampling import every, sampled

Start = Callable[..., Any]
CLOSE = "connection: close\r\n"


@pytest.mark.slow
def test_every_connection_that_the_kernel_accepts_while_the_service_stops_is_answered(start: Start) -> None:
    """One connection for each request, as many clients have them: those in the listener's queue are not reset."""
    service = start()
    accepted: list[tuple[str, bytes]] = []

    async def one() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        except ConnectionError:  # refused: the client knows that nothing was done, and asks another
            return False
        with contextlib.closing(writer):
            try:
                writer.write(raw.predict("text", headers=CLOSE))
                accepted.append(("answered", await reader.read()))
            except ConnectionError as error:
                accepted.append((type(error).__name__, b""))
        return True

    async def client() -> None:
        while await one():
            pass

    async def main() -> None:
        clients = [asyncio.create_task(client()) for _ in range(32)]
        while len(accepted) < 300:
            await asyncio.sleep(0.01)
        service.terminate()
        await asyncio.wait_for(asyncio.gather(*clients), raw.DEADLINE_SECONDS)

    asyncio.run(main())
    lost = [entry for entry in accepted if not entry[1].startswith(b"HTTP/1.1 200")]
    assert not lost, f"{len(lost)} of {len(accepted)} accepted connections had no answer, the first: {lost[0]}"
    assert service.exit_code(10) == 0


@pytest.mark.slow
def test_clients_that_wait_in_the_listeners_queue_are_answered(start: Start) -> None:
    """They are accepted by the kernel while the event loop does not run at all, and SIGTERM comes before it does."""
    service = start()
    service.popen.send_signal(signal.SIGSTOP)
    waiting = [raw.connect(service) for _ in range(200)]
    for connection in waiting:
        connection.sendall(raw.predict("text", headers=CLOSE))
    service.terminate()
    service.popen.send_signal(signal.SIGCONT)
    answers = [raw.read(connection) for connection in waiting]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200"}
    assert service.exit_code(10) == 0


@pytest.mark.slow
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
@pytest.mark.parametrize(
    "signals", sampled([[signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP], [signal.SIGHUP, signal.SIGTERM]], every(3))
)
def test_sighup_cuts_no_answer_off(start: Start, tmp_path: Path, signals: list[int]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup children would inherit that it is ignored
    try:
        service = start(STANDIN_CALL_MS="1000", STANDIN_TELLS=str(tmp_path / "at-work"))
    finally:
        signal.signal(signal.SIGHUP, before)
    with raw.connect(service) as connection:
        (tmp_path / "at-work").unlink(missing_ok=True)  # it warmed up with its examples
        connection.sendall(raw.predict("text"))
        wait_until((tmp_path / "at-work").exists, "the model never got the text")
        for number in signals:
            service.popen.send_signal(number)
            wait_until(lambda: "draining" in service.log.read_text(), "the signal was not heard")
        assert raw.read(connection).startswith(b"HTTP/1.1 200")
    assert service.exit_code(10) == 0


@pytest.mark.slow
def test_a_process_that_is_told_to_outlive_its_terminal_does(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; children inherit it
    try:
        service = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    service.popen.send_signal(signal.SIGHUP)
    service.terminate()
    assert service.exit_code(10) == 0
    [line] = [json.loads(line) for line in service.log.read_text().splitlines() if "draining" in line]
    assert line["cause"] == "SIGTERM"


@pytest.mark.slow
@pytest.mark.parametrize(
    "declared", sampled(["content-length: 50000000\r\n", "transfer-encoding: chunked\r\n"], every(2))
)
def test_a_refused_body_is_not_read_for_ever_and_its_client_sees_why(start: Start, declared: str) -> None:
    service = start()
    with raw.connect(service) as connection:
        head = f"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{declared}\r\n"
        connection.sendall(head.encode() + b"2faf080\r\n")
        sent, reset = 0, False
        try:
            for _ in range(50):  # all of what was announced, without looking at the answer
                sent += connection.send(b"x" * 1_000_000)
        except ConnectionError:
            reset = True
        assert not reset, f"the connection was reset after {sent} bytes, and the answer with it"
        answer = raw.read(connection)
    assert answer.startswith(b"HTTP/1.1 413"), answer
    assert b"connection: close" in answer


@pytest.mark.slow
def test_who_goes_on_sending_after_a_refusal_is_cut_off(start: Start) -> None:
    service = start()
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 900000000\r\n\r\n"
    with raw.connect(service) as connection:
        connection.sendall(head)

        def refused() -> bool:
            try:
                connection.sendall(b"x")
            except ConnectionError:
                return True
            return False

        wait_until(refused, "the service reads on for ever")


def unread(service: Any) -> socket.socket:
    """Return a connection whose client has asked for more than its buffers hold, and reads nothing."""
    connection = raw.connect(service, receive_buffer=4096)
    connection.sendall(raw.predict("text"))
    return connection


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Fail when `holds` does not hold soon."""
    end = time.monotonic() + raw.DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_given_up(start: Start) -> None:
    service = start(BODY_SECONDS="1", STANDIN_PADDING="20000000")
    with unread(service) as connection:
        told = "has not read the answer for 1 s"
        wait_until(lambda: told in service.log.read_text(), "the service keeps the answer for a client that stalls")
        with pytest.raises(ConnectionError):
            raw.read(connection)
    assert service.predict("after")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(("patience", "grace"), [("2", "20"), ("60", "5")])
def test_an_answer_that_is_cut_off_at_the_end_is_told_by_the_exit_code(start: Start, patience: str, grace: str) -> None:
    service = start(BODY_SECONDS=patience, SHUTDOWN_SECONDS=grace, STANDIN_PADDING="20000000")
    connections = [unread(service) for _ in range(4)]
    service.terminate()
    assert service.exit_code(float(grace) + 2) == 143
    assert "4 answers were cut off" in service.log.read_text()
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("version", sampled(["1.1", "1.0"], ["1.1"]))
@pytest.mark.parametrize("milliseconds", sampled(["0", "600"], ["600"]))
def test_a_client_that_closes_its_half_of_the_connection_is_answered(
    start: Start, version: str, milliseconds: str
) -> None:
    service = start(STANDIN_CALL_MS=milliseconds)
    with raw.connect(service) as connection:
        connection.sendall(raw.predict("text", version=version))
        connection.shutdown(socket.SHUT_WR)
        answer = raw.read(connection).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert answer.endswith(b"}")


@pytest.mark.slow
def test_all_that_was_asked_before_the_half_close_is_answered(start: Start) -> None:
    service = start(STANDIN_CALL_MS="50")
    with raw.connect(service) as connection:
        connection.sendall(raw.predict("one") + raw.predict("two") + raw.predict("three"))
        connection.shutdown(socket.SHUT_WR)
        assert raw.read(connection).count(b"HTTP/1.1 200") == 3


@pytest.mark.slow
def test_half_a_request_that_is_all_there_will_be_is_refused_at_once(start: Start) -> None:
    service = start()
    for half in (b"GET /livez HT", raw.predict("text")[:-5]):
        with raw.connect(service) as connection:
            connection.sendall(half)
            connection.shutdown(socket.SHUT_WR)
            assert raw.read(connection).startswith(b"HTTP/1.1 400")


@pytest.mark.slow
def test_a_request_after_a_broken_one_does_not_cost_the_answer_before_it(start: Start) -> None:
    service = start(STANDIN_CALL_MS="300")
    answer = raw.ask(service, raw.predict("text") + b"\x00 what is this?\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer


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


@pytest.mark.slow
def test_a_head_that_never_ends_holds_the_end_no_longer_than_its_time(start: Start) -> None:
    service = start(BODY_SECONDS="1.5")
    with raw.connect(service) as connection:
        connection.sendall(b"GET /livez HT")
        time.sleep(0.1)
        service.terminate()
        assert service.exit_code(5) == 0
        assert raw.read(connection).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
def test_of_requests_without_end_that_wait_for_no_answer_the_first_are_answered(start: Start) -> None:
    """Each waits as an object that is far larger than its line: a few of such clients would take all memory."""
    service = start()
    with raw.connect(service) as connection:
        connection.sendall(raw.predict("first") + b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" * 2000)
        answers = raw.read(connection)
    assert 50 <= answers.count(b"HTTP/1.1 200 ") <= 200
    assert b"connection: close" in answers
    assert answers.count(b"HTTP/1.1") == answers.count(b"HTTP/1.1 200 ")
