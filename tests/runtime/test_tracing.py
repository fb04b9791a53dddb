"""Traces: the span of a request has the route and the fields of its log line; probes have none."""

from __future__ import annotations

import os
import subprocess
import sys

from gpu_repo_runtime.serving import tracing
from opentelemetry import trace

from tests.runtime.services import RUNTIME


class Span(trace.NonRecordingSpan):
    """Keeps its name and its attributes."""

    def is_recording(self) -> bool:
        return True

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attributes(self, attributes: object) -> None:
        self.attributes = attributes


def test_the_span_of_a_request_has_its_route_its_batch_and_its_time_in_the_queue() -> None:
    span = Span(trace.INVALID_SPAN_CONTEXT)
    with trace.use_span(span):
        tracing.describe("/predict", {"batch": 8, "queue_ms": 0.5})
    assert (span.name, span.attributes) == (
        "POST /predict",
        {"http.route": "/predict", "batch": 8, "queue_ms": 0.5},
    )


def test_probes_make_no_spans_and_messages_are_not_exported() -> None:
    options = tracing.telemetry()
    assert options["exclude"]
    assert options["exclude"]({"type": "http", "path": "/livez"})
    assert not options["exclude"]({"type": "http", "path": "/predict"})
    assert not options["logs"]


def test_the_sdk_is_not_imported_by_itself() -> None:
    code = """
import sys
from gpu_repo_runtime.serving.app import create_app
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
