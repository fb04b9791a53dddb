"""The service as a process: start, refusals to start, shutdown under load, a lost device."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.runtime import raw
from tests.runtime.services import Process
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


def until_closed(service: Any, sent: list[int]) -> str:
    """Send one request after the other until an answer closes the connection; return its status, or what went wrong."""
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


@pytest.mark.parametrize("stops", sampled([1, 8], [1]))
def test_no_request_on_a_kept_connection_is_lost_while_the_service_stops(start: Start, stops: int) -> None:
    """Nor one that comes in pieces around SIGTERM."""
    for _ in range(stops):
        service, sent = start(STANDIN_CALL_MS="3"), [0]
        begun = {text: raw.connect(service) for text in ("", "POST /pre", "POST /predict HTTP/1.1\r\nhost: x\r\n")}
        for text, connection in begun.items():
            connection.sendall(text.encode())
        with ThreadPoolExecutor() as pool:
            clients = [pool.submit(until_closed, service, sent) for _ in range(16)]
            time.sleep(0.5)
            service.terminate()
            time.sleep(0.7)
            for text, connection in begun.items():
                connection.sendall(raw.predict("text")[len(text) :])
                answer = raw.read(connection)
                assert answer.startswith(b"HTTP/1.1 200"), (text, answer)
                assert b"connection: close" in answer
                connection.close()
            assert {one.result() for one in clients} == {"200"}, f"{sent[0]} requests"
        assert service.exit_code(10) == 0


@pytest.mark.slow
def test_sigterm_finishes_long_requests_and_no_open_connection_keeps_the_process(start: Start) -> None:
    service = start(STANDIN_CALL_MS="1500")
    idle = [raw.connect(service) for _ in range(20)]
    idle[0].sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
    assert idle[0].recv(4096).startswith(b"HTTP/1.1 200")
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(service.predict, f"text {number}") for number in range(3)]  # in two calls
        time.sleep(0.5)
        service.terminate()
        service.wait_for("/readyz", 503)
        assert [future.result()[0] for future in running] == [200] * 3
        service.wait_for("/readyz", 0)
    assert service.exit_code(5) == 0
    for connection in idle:
        raw.read(connection)  # raises if it was reset
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_a_model_that_hangs_does_not_keep_the_process_beyond_its_time(start: Start, signals: int) -> None:
    """A second SIGTERM ends it at once; until then it turns liveness red."""
    service = start(SHUTDOWN_SECONDS="2" if signals == 1 else "60", STUCK_SECONDS="0.5")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(service.predict, "hang")
        assert "STUCK_SECONDS" in service.wait_for("/livez", 503, 5)
        started = time.monotonic()
        for _ in range(signals):
            service.terminate()
            time.sleep(0.3)
        assert service.exit_code(4) == 143
        assert time.monotonic() - started < 2.5
        assert running.result()[0] == (503 if signals == 1 else 0)


@pytest.mark.slow
def test_while_the_model_loads_the_process_lives_and_is_not_ready(start: Start) -> None:
    service = start(ready=False, STANDIN_LOAD_MS="2000")
    begun = time.monotonic()
    service.wait_for("/livez", 200)
    assert service.get("/readyz")[0] == 503
    status, problem = service.predict("early")
    assert (status, problem["code"]) == (503, "not_ready")
    service.wait_for("/readyz", 200)
    assert time.monotonic() - begun >= 1.8
    assert service.predict("now")[0] == 200
    assert 2 <= service.metric("service_model_load_seconds") < 4
    loading = start(ready=False, STANDIN_LOAD_MS="60000")
    loading.wait_for("/livez", 200)
    loading.terminate()
    assert loading.exit_code(3) == 0


@pytest.mark.slow
def test_cuda_without_a_gpu_gives_the_cause_that_gpu_smoke_finds(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "gpu-smoke"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "base-images"}" exec "{sys.executable}" -m gpu_smoke "$@"\n')
    program.chmod(0o755)
    service = start(ready=False, DEVICE="cuda", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert service.exit_code(60) == 78
    [line] = [json.loads(line) for line in service.log.read_text().splitlines() if "refusing" in line]
    assert line["code"].startswith("GS")
    assert line["fix"]


@pytest.mark.slow
def test_a_lost_device_turns_liveness_red_and_ends_the_process_with_its_code(start: Start) -> None:
    service = start(STANDIN_CALL_MS="300")
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(service.predict, "first")
        time.sleep(0.1)
        # Texts of one length stay in one batch.
        texts = ["lose the device" if number == 3 else f"text number {number:03}" for number in range(10)]
        waiting = [pool.submit(service.predict, text) for text in texts]
        assert first.result()[0] == 200
        answers = [future.result() for future in waiting]
        assert {(status, problem["code"]) for status, problem in answers} == {(503, "device_lost")}
        status, body = service.get("/livez")
        assert (status, "illegal memory access" in body) == (503, True)
    assert service.exit_code(5) == 69


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_with_the_way_out(start: Start) -> None:
    first = start()
    second = start(ready=False, PORT=str(first.port))
    assert second.exit_code(20) == 1
    assert f"PORT={first.port} (see the line before): set another PORT" in second.log.read_text()


# The variables, the exit code, words of the log.
REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "no GPU": ({"DEVICE": "cuda"}, 78, "refusing to start: DEVICE=cuda, but no GPU can be used"),
    "a number out of range": ({"PORT": "99999"}, 78, "refusing to start: PORT: "),
    "no room for one text": ({"STANDIN_FITS": "0"}, 78, "1 texts do not fit"),
    "load ends the process": ({"STANDIN_LOAD_RAISES": "SystemExit"}, 1, "SystemExit"),
}


@pytest.mark.parametrize("case", sampled(REFUSED, ["no GPU"]))
def test_a_service_that_cannot_start_says_why_and_ends_with_the_code(start: Start, case: str) -> None:
    variables, code, words = REFUSED[case]
    service = start(ready=False, **variables)
    assert service.exit_code(20) == code
    assert words in service.log.read_text()


# What model.py contains, the exit code, words of the one line.
MODELS = {
    "a missing package": ("import torhc\n", 1, "model.py:1: ModuleNotFoundError: No module named 'torhc'; a pack"),
    "no Python": ("class Model:\n  )(\n", 1, "model.py:2: SyntaxError: unmatched ')'"),
    "no examples": ("class Model:\n  def load(self, device): ...\n", 78, "write def predict(self, "),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_be_used_is_named_in_one_line(child: Path, tmp_path: Path, case: str) -> None:
    text, code, words = MODELS[case]
    copy = Path(shutil.copytree(child / "src", tmp_path / "src"))
    next(copy.glob("*/model.py")).write_text(text)
    service = Process(tmp_path, tmp_path / "log")
    assert service.exit_code(20) == code
    [line] = service.log.read_text().splitlines()
    assert words in line
