"""OpenTelemetry: FastAPI makes the span of a request, this module its name and the figures of its batch."""

import os
from typing import Any

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace

# Probes and scrapes: no spans, and no lines in the log.
QUIET = frozenset({"/", "/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
# Looking for a span that nobody records takes 2 of the 80 microseconds of a small request.
ENABLED = any(name.startswith("OTEL_") for name in os.environ)


def telemetry() -> TelemetryConfig:
    """Return the options of FastAPI: spans if a variable of OpenTelemetry is set.

    Metrics are those of metrics.py, and the logs of FastAPI would contain the messages of exceptions.
    """
    return {
        "tracing": ENABLED,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": True,
        "exclude": lambda scope: scope["type"] == "http" and scope["path"] in QUIET,
    }


def describe(route: str, fields: dict[str, Any]) -> None:
    """Give the span of a request, which the router does not see, its name and the fields of its log line."""
    span = trace.get_current_span()
    if span.is_recording():
        span.update_name(f"POST {route}")
        span.set_attributes({"http.route": route, **fields})
