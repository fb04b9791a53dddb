"""The log: it holds no text of a client, steers no terminal, and a reader that stops stops nothing."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import raw
from tests.runtime.services import Process

Start = Callable[..., Any]
SECRET = "do-not-repeat-this"
STEERING = "\x1b[31m red \r over \x9b31m \u202e thgir \u2028 next \x7f"


@pytest.fixture
def stalled(child: Path, tmp_path: Path) -> Any:
    """Return a service whose log nobody reads, and what reads it at last."""
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    service = Process(child, fifo)
    service.wait_for("/readyz", 200)
    yield service, reader
    service.popen.kill()
    service.popen.wait()
    os.close(reader)


def test_a_reader_that_stops_stops_nothing(stalled: Any) -> None:
    """A pipe holds 64 KB; the lines of a thousand requests are many times that."""
    service, _ = stalled
    connection = raw.connect(service)
    with connection:
        for _ in range(1000):
            connection.sendall(raw.predict("text"))
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
    assert service.get("/livez")[0] == 200
    service.terminate()
    assert service.exit_code(10) == 0, "nor does it hold the end up"


def record_of(error: Exception) -> logging.LogRecord:
    """Return the record of a log call in the handler of `error`."""
    try:
        raise error
    except type(error):
        return logging.LogRecord("x", logging.ERROR, "", 0, "it failed", None, sys.exc_info())


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("formatter", ["JsonFormatter", "TextFormatter"])
def test_nothing_in_a_log_steers_the_terminal(serving: Callable, formatter: str, whole: bool) -> None:
    record = record_of(ValueError(STEERING))
    record.msg, record.fields = STEERING, {"path": STEERING}
    text = getattr(serving("logs"), formatter)(whole=whole).format(record)
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()]
    assert sum("red" in line for line in lines) == (2 if whole and formatter == "TextFormatter" else 1)
    if formatter == "JsonFormatter":
        assert json.loads(text)["path"] == STEERING


@pytest.mark.parametrize("formatter", ["JsonFormatter", "TextFormatter"])
def test_of_an_exceptions_message_the_log_keeps_length_and_hash(serving: Callable, formatter: str) -> None:
    first, second = ValueError(f"cannot read {SECRET}"), KeyError(SECRET)
    second.__cause__ = first
    second.add_note(SECRET)
    text = getattr(serving("logs"), formatter)().format(record_of(second))
    assert SECRET not in text
    assert "KeyError: (20 characters, sha256 " in text
    assert "ValueError: (30 characters, sha256 " in text
    assert "test_logs.py" in text


def test_a_service_repeats_no_clients_text_unless_told_to(start: Start) -> None:
    for level, shown in (("info", False), ("debug", True)):
        service = start(LOG_LEVEL=level)
        assert service.predict(f"repeat {SECRET}")[0] == 500
        service.terminate()
        assert service.exit_code(10) == 0
        log = service.log.read_text()
        assert "KeyError" in log
        assert (SECRET in log) == shown, level


def test_a_lack_of_memory_repeats_no_clients_text(start: Start) -> None:
    service = start()
    status, problem = service.predict(f"run out of memory {SECRET}")
    assert (status, problem["code"]) == (413, "input_too_large")
    service.terminate()
    assert service.exit_code(10) == 0
    log = service.log.read_text()
    assert ("out of memory: trying with less" in log, SECRET in log) == (True, False)


def test_a_crash_of_a_library_leaves_the_place_in_the_log(start: Start) -> None:
    service = start()
    service.predict("crash")
    assert service.exit_code(10) == -signal.SIGSEGV
    log = service.log.read_text()
    assert "Segmentation fault" in log
    assert "model.py" in log
    assert "in predict" in log


@pytest.mark.slow
def test_what_others_print_comes_out_whole(start: Start, child: Path) -> None:
    service = start()
    assert service.predict("shout")[0] == 200
    service.terminate()
    assert service.exit_code(10) == 0
    assert "x" * 1_000_000 in service.log.read_text()
