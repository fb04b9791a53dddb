"""The log: it holds no text of a client, steers no terminal, and a reader that stops stops nothing."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gpu_repo_runtime.serving import logs

from tests.runtime import raw
from tests.runtime.services import Process

Start = Callable[..., Any]
SECRET = "do-not-repeat-this"
STEERING = "\x1b[31m red \r over \x9b31m \u202e thgir \u2028 next \x7f"
FORMATTERS = pytest.mark.parametrize("formatter", [logs.JsonFormatter, logs.TextFormatter])


@pytest.fixture
def stalled(child: Path, tmp_path: Path) -> Iterator[Process]:
    """Return a service whose log nobody reads."""
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    service = Process(child, fifo)
    try:
        service.wait_for("/readyz", 200)
        yield service
    finally:
        service.popen.kill()
        service.popen.wait()
        os.close(reader)


def test_a_reader_that_stops_stops_nothing(stalled: Process) -> None:
    """A pipe holds 64 KB; the lines of a thousand requests are many times that."""
    with raw.connect(stalled) as connection:
        for _ in range(1000):
            connection.sendall(raw.predict("text"))
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
    assert stalled.get("/livez")[0] == 200
    stalled.terminate()
    assert stalled.exit_code(10) == 0, "nor does it hold the end up"


def record_of(error: Exception) -> logging.LogRecord:
    """Return the record of a log call in the handler of `error`."""
    try:
        raise error
    except type(error):
        return logging.LogRecord("x", logging.ERROR, "", 0, "it failed", None, sys.exc_info())


@pytest.mark.parametrize("whole", [False, True])
@FORMATTERS
def test_nothing_in_a_log_steers_the_terminal(formatter: Any, whole: bool) -> None:
    record = record_of(ValueError(STEERING))
    record.msg, record.fields = STEERING, {"path": STEERING}
    text = formatter(whole=whole).format(record)
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()]
    assert sum("red" in line for line in lines) == (2 if whole and formatter is logs.TextFormatter else 1)
    if formatter is logs.JsonFormatter:
        assert json.loads(text)["path"] == STEERING


@FORMATTERS
def test_of_an_exceptions_message_the_log_keeps_length_and_hash(formatter: Any) -> None:
    first, second = ValueError(f"cannot read {SECRET}"), KeyError(SECRET)
    second.__cause__ = first
    second.add_note(SECRET)
    text = formatter().format(record_of(second))
    assert SECRET not in text
    assert "KeyError: (20 characters, sha256 " in text
    assert "ValueError: (30 characters, sha256 " in text
    assert "test_logs.py" in text


@pytest.mark.parametrize("level", ["info", pytest.param("debug", marks=pytest.mark.slow)])
def test_a_service_names_each_request_and_repeats_no_clients_text_unless_told_to(start: Start, level: str) -> None:
    service = start(LOG_LEVEL=level)

    def ask(text: str, request_id: str) -> Any:
        body, headers = {"texts": [text] * bool(text)}, {"x-request-id": request_id}
        return httpx.post(f"{service.url}/predict", json=body, headers=headers)

    given, made, forged = ask("a", "from-the-client.1"), ask("", ""), ask("a", 'x" "forged')
    failed, large = ask(f"repeat {SECRET}", ""), ask(f"run out of memory {SECRET}", "")
    service.get("/livez")
    service.terminate()
    assert service.exit_code(10) == 0
    assert given.headers["x-request-id"] == "from-the-client.1"
    assert made.headers["x-request-id"] == made.json()["request_id"]
    assert '"' not in forged.headers["x-request-id"]
    assert (failed.status_code, large.status_code, large.json()["code"]) == (500, 413, "input_too_large")
    log = service.log.read_text()
    assert all(words in log for words in ("KeyError", "out of memory: trying with less"))
    assert (SECRET in log) == (level == "debug")
    if level == "info":
        lines = [line for line in map(json.loads, log.splitlines()) if line["logger"] == "request"]
        assert [line["status"] for line in lines] == [200, 422, 200, 500, 413], "none for a healthy probe"
        assert lines[0]["request_id"] == "from-the-client.1"
        assert {"method", "path", "status", "ms", "inputs", "batch", "queue_ms"} <= lines[0].keys()


@pytest.mark.slow
def test_a_crash_of_a_library_leaves_the_place_in_the_log(start: Start) -> None:
    service = start()
    service.predict("crash")
    assert service.exit_code(10) == -signal.SIGSEGV
    log = service.log.read_text()
    assert all(words in log for words in ("Segmentation fault", "model.py", "in predict")), log
