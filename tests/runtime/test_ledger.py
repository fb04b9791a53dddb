"""The lines and counts of requests that were answered together: as of each one alone, and nobody misses a record."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_repo_runtime.serving import logs
from gpu_repo_runtime.serving.ledger import Answered, Ledger
from gpu_repo_runtime.serving.service import Service
from gpu_repo_runtime.serving.settings import Settings

from tests.runtime.standin_model import Model

PREDICTIONS = [
    Answered("/predict", "/predict", "0123456789abcdef", 1, 64, 0.0, 0.0),
    Answered("/predict", "/predict", "from-the-client.1", 8, 3, 0.1, 0.00123456),
    Answered("/predict", "/predict", "a", 1, 1, 12345.67, 29.9999),
    Answered("/v1/models/m:predict", "/v1/models/m:predict", "b", 1, 1, 1e16, 1e-9),
    Answered('/a "path"\u2028', '/a "path"\u2028é', "c", 2, 2, 3.3, 0.1 + 0.2),
]


class Lines:
    """In the place of a writer."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        self.put = self.text.write


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the only handler of the process writes, as a service has it."""
    lines = Lines()
    handler = logs._Handler(lines)  # type: ignore[arg-type]
    handler.setFormatter(logs.JsonFormatter())
    monkeypatch.setattr(logging.root, "handlers", [handler])
    request = logging.getLogger("request")
    level = request.level
    request.setLevel(logging.INFO)
    yield lines.text
    request.setLevel(level)
    request.handlers.clear(), request.filters.clear(), handler.filters.clear()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Service(Model(), Settings(device="cpu")))


def alone() -> logging.Logger:
    """Take the handlers of the tests away, which see every record."""
    del logging.root.handlers[1:]
    logger = logging.getLogger("request")
    assert logs.only_writer(logger)
    return logger


def without_time(text: str) -> str:
    timed = r'^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"'
    assert all(re.match(timed, line) for line in text.splitlines()), text
    return re.sub(timed, "", text, flags=re.M)


def test_the_lines_are_the_bytes_that_the_handler_would_write(written: io.StringIO, ledger: Ledger) -> None:
    logger = alone()
    ledger.enter_all(PREDICTIONS)
    together = written.getvalue()
    logger.addHandler(logging.NullHandler())
    assert logs.only_writer(logger) is None
    ledger.enter_all(PREDICTIONS)
    one_by_one = written.getvalue().removeprefix(together)
    assert without_time(together) == without_time(one_by_one)
    assert [json.loads(line)["request_id"] for line in together.splitlines()] == [one.request_id for one in PREDICTIONS]


def as_handler(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    own = logging.Handler()
    own.emit = see  # type: ignore[method-assign]
    logging.getLogger("request").addHandler(own)


def as_root_handler(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    own = logging.Handler()
    own.emit = see  # type: ignore[method-assign]
    logging.root.handlers.append(own)


def as_filter(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    logging.getLogger("request").addFilter(lambda record: see(record) or True)


def as_filter_of_the_handler(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    logging.root.handlers[0].addFilter(lambda record: see(record) or True)


def as_factory(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    def factory(*about: Any, **more: Any) -> logging.LogRecord:
        record = logging.LogRecord(*about, **more)
        see(record)
        return record

    patch.setattr(logging, "_logRecordFactory", factory)


def as_agent(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    before = logging.Logger.callHandlers

    def call(self: Any, record: logging.LogRecord) -> None:
        see(record)
        before(self, record)

    patch.setattr(logging.Logger, "callHandlers", call)


def as_formatter(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    class Own(logs.JsonFormatter):
        def format(self, record: logging.LogRecord) -> str:
            see(record)
            return super().format(record)

    logging.root.handlers[0].setFormatter(Own())


def as_format(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    formatter: Any = logging.root.handlers[0].formatter
    before = formatter.format
    patch.setattr(formatter, "format", lambda record: see(record) or before(record))


def as_emit(see: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> None:
    before = logging.root.handlers[0].emit
    patch.setattr(logging.root.handlers[0], "emit", lambda record: see(record) or before(record))


@pytest.mark.parametrize(
    "how",
    [
        as_handler,
        as_root_handler,
        as_filter,
        as_filter_of_the_handler,
        as_factory,
        as_agent,
        as_formatter,
        as_format,
        as_emit,
    ],
)
def test_who_looks_at_the_log_gets_every_record(
    how: Callable[..., None], written: io.StringIO, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    alone()
    how(seen.append, monkeypatch)
    ledger.enter_all(PREDICTIONS)
    assert len(seen) == len(PREDICTIONS)
    assert written.getvalue().count("\n") == len(PREDICTIONS)


def test_a_level_that_leaves_requests_out_leaves_these_out(written: io.StringIO, ledger: Ledger) -> None:
    alone().setLevel(logging.WARNING)
    ledger.enter_all(PREDICTIONS)
    assert written.getvalue() == ""


def test_the_counts_are_those_of_each_one_alone(written: io.StringIO) -> None:
    def counts(enter: Callable[[Ledger], None]) -> dict[Any, float]:
        service = Service(Model(), Settings(device="cpu"))
        enter(Ledger(service))
        samples = [sample for family in service.metrics.registry.collect() for sample in family.samples]
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for sample in samples
            if sample.name.startswith(("service_request", "service_rejected")) and not sample.name.endswith("created")
        }

    def one_by_one(ledger: Ledger) -> None:
        for one in PREDICTIONS:
            ledger.enter(one.route, {"batch": one.batch}, "POST", one.path, 200, one.seconds)

    assert counts(lambda ledger: ledger.enter_all(PREDICTIONS)) == counts(one_by_one)
