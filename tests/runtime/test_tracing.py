"""Traces: FastAPI's span of a request gets the spans of its queue and its model call."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from gpu_repo_runtime.serving import tracing
from gpu_repo_runtime.serving.call import Call
from opentelemetry import trace

from tests.runtime.services import RUNTIME

CALL = Call(["x"] * 3, [1] * 3, None, None, [], None, 10.0, 0, 0, started_at=10.5, ended_at=11.0, batch_size=8)


class Span(trace.NonRecordingSpan):
    """Keeps what it is given."""

    def __init__(self, name: str, parent: int = 0, attributes: Any = None, start_time: int = 0) -> None:
        super().__init__(trace.SpanContext(1, 7 if not parent else 8, is_remote=False))
        self.name, self.parent, self.attributes = name, parent, dict(attributes or {})
        self.seconds, self._start = 0.0, start_time

    def is_recording(self) -> bool:
        return True

    def end(self, end_time: int | None = None) -> None:
        self.seconds = ((end_time or 0) - self._start) / 1e9


class Recorder:
    """A tracer that keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, **about: Any) -> Span:
        self.spans.append(Span(name, trace.get_current_span().get_span_context().span_id, **about))
        return self.spans[-1]


def test_a_request_has_its_queue_and_its_model_call_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "tracer", recorder)
    with trace.use_span(Span("POST /predict")):
        tracing.answered(CALL)
    assert [(span.name, span.parent) for span in recorder.spans] == [("queue", 7), ("model", 7)]
    assert [round(span.seconds, 3) for span in recorder.spans] == [0.5, 0.5]
    assert recorder.spans[1].attributes == {"batch.size": 8}


def test_nothing_is_traced_without_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "tracer", recorder)
    tracing.answered(CALL)
    assert recorder.spans == []


def test_probes_make_no_spans_and_messages_are_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    options = tracing.telemetry()
    assert options["exclude"]
    assert options["exclude"]({"type": "http", "path": "/livez"})
    assert not options["exclude"]({"type": "http", "path": "/predict"})
    assert (options["tracing"], options["logs"]) == (True, False)


def test_the_sdk_is_not_imported_by_itself() -> None:
    code = """
import sys
from gpu_repo_runtime.serving.app import create_app
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
