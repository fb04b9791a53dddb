"""Traces: what a request leaves in the client's trace, and what asks for them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.serving import tracing
from opentelemetry import trace

from tests.runtime.owners import ASKED, client_of, with_token
from tests.runtime.services import RUNTIME


class Recorder(trace.TracerProvider, trace.Tracer):
    """A provider and tracer of OpenTelemetry's API that keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Any = None, **about: Any) -> trace.Span:
        parent = trace.get_current_span(context)
        ids = parent.get_span_context()
        number = len(self.spans) + 1
        span = Span(name, ids.span_id, trace.SpanContext(ids.trace_id or number, number, False), about)
        self.spans.append(span)
        return span

    @trace._agnosticcontextmanager
    def start_as_current_span(self, name: str, context: Any = None, **about: Any) -> Iterator[trace.Span]:
        about.pop("record_exception"), about.pop("set_status_on_exception")
        with trace.use_span(self.start_span(name, context, **about), end_on_exit=True) as span:
            yield span


class Span(trace.NonRecordingSpan):
    def __init__(self, name: str, parent: int, context: trace.SpanContext, about: dict[str, Any]) -> None:
        super().__init__(context)
        self.name, self.parent, self.attributes = name, parent, dict(about.get("attributes") or {})
        self.start, self.stop = about.get("start_time"), None

    def is_recording(self) -> bool:
        return True

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def end(self, end_time: int | None = None) -> None:
        self.stop = end_time


@pytest.mark.parametrize("owner", [False, True], ids=["alone", "with a middleware of the owner"])
def test_a_request_is_traced_with_queue_batch_and_model_in_the_clients_trace(
    monkeypatch: pytest.MonkeyPatch, owner: bool
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "start", lambda *_: tracing.Tracing(recorder))
    with client_of(with_token if owner else None) as client:
        del recorder.spans[:]
        headers = {"traceparent": f"00-{7:032x}-{9:016x}-01", "authorization": "Bearer open sesame"}
        assert client.post("/predict", json=ASKED, headers=headers).status_code == 200
        request, queue, batch, called = recorder.spans
        client.get("/livez")
        assert len(recorder.spans) == 4, "probes are not traced"
        client.app.state.service.tracing = None  # type: ignore[attr-defined]
    assert [span.name for span in (request, queue, batch, called)] == ["POST /predict", "queue", "batch", "model"]
    assert {span.get_span_context().trace_id for span in recorder.spans} == {7}
    ids = [span.get_span_context().span_id for span in recorder.spans]
    assert [span.parent for span in recorder.spans] == [9, ids[0], ids[0], ids[2]]
    assert request.attributes["http.response.status_code"] == 200
    assert queue.start <= queue.stop == batch.start <= called.start <= called.stop <= batch.stop
    assert batch.attributes == called.attributes == {"batch.size": 1}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER"),
    ],
)
def test_only_these_variables_ask_for_traces(environment: dict[str, str], asked: str) -> None:
    assert tracing.asked_by(environment) == asked


LOADED = """
import sys
from gpu_repo_runtime.serving.app import create_app
from topic_finder.model import Model
create_app(Model())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""


@pytest.mark.slow
def test_nothing_is_loaded_where_nothing_asks_and_a_line_says_what_is_missing(child: Path) -> None:
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}"}
    loaded = subprocess.run([sys.executable, "-c", LOADED], env=own, capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
    own["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    told = subprocess.run([sys.executable, "-c", LOADED], env=own, capture_output=True, text=True, check=True)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and there are none: " in told.stderr
    assert "Add opentelemetry-sdk" in told.stderr


def test_traces_that_cannot_be_sent_do_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.01)
    hold = threading.Event()

    class Stuck(Recorder):
        def force_flush(self, milliseconds: int) -> None:
            hold.wait(60)

    asyncio.run(tracing.Tracing(Stuck()).flush())
    hold.set()
