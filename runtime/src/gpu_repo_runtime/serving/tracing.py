"""OpenTelemetry: FastAPI makes the span of a request, this module the spans of its queue and model call."""

import os
import time
from typing import Any

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace

from .call import Call

# Probes and scrapes: no spans, and no lines in the log.
QUIET = frozenset({"/", "/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
tracer = trace.get_tracer("gpu_repo_runtime")


def _is_quiet(scope: Any) -> bool:
    return scope["type"] == "http" and scope["path"] in QUIET


def telemetry() -> TelemetryConfig:
    """Return the options of FastAPI: spans if a variable of OpenTelemetry is set.

    Metrics are those of metrics.py, and the logs of FastAPI would contain the messages of exceptions.
    """
    return {
        "tracing": any(name.startswith("OTEL_") for name in os.environ),
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": True,
        "exclude": _is_quiet,
    }


def answered(call: Call) -> None:
    """Make the spans of a call that is done, inside the span of its request."""
    if not trace.get_current_span().is_recording():
        return
    ahead = time.time() - time.perf_counter()

    def span(name: str, begun: float, ended: float, **attributes: int) -> None:
        made = tracer.start_span(name, start_time=int((begun + ahead) * 1e9), attributes=attributes)
        made.end(int((ended + ahead) * 1e9))

    span("queue", call.queued_at, call.started_at)
    span("model", call.started_at, call.ended_at, **{"batch.size": call.batch_size})


def name_span(method: str, route: str) -> None:
    """Name the span of a request that the router does not see."""
    span = trace.get_current_span()
    if span.is_recording():
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
