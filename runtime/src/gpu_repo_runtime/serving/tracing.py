"""OpenTelemetry traces, where the standard ``OTEL_*`` variables ask for them and the owner has installed the SDK.

A request is one span, with what it waited in the queue, its batch and the call of the model inside. Nothing of
OpenTelemetry is imported where no variable asks for it.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .call import Call

log = logging.getLogger(__name__)
ASKING = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
QUIET = frozenset({"/", "/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
FLUSH_SECONDS = 2.0


def asked_by(environment: Mapping[str, str]) -> str:
    """Return the variable that asks for traces, or nothing."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    if environment.get("OTEL_TRACES_EXPORTER") == "none":
        return ""
    return next((name for name in ASKING if environment.get(name)), "")


def start(environment: Mapping[str, str], service: str) -> "Tracing | None":
    """Return what makes the spans, or None where no variable asks for it or the SDK is not installed."""
    asked = asked_by(environment)
    if not asked:
        return None
    try:
        return Tracing(_provider(environment, service))
    except ImportError as error:
        log.warning(
            "%s asks for traces, and there are none: %s. Add opentelemetry-sdk and "
            "opentelemetry-exporter-otlp-proto-http to pyproject.toml, run scripts/lock and scripts/setup",
            asked,
            error,
        )
        return None


def _provider(environment: Mapping[str, str], service: str) -> Any:
    """The provider that is set already, as opentelemetry-instrument does it, or one that follows the variables."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return provider
    exporter = _exporter(environment)
    named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _exporter(environment: Mapping[str, str]) -> Any:
    name = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "otlp":
        protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL"
        )
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for point in entry_points(group="opentelemetry_traces_exporter", name=name):
        return point.load()()
    raise ImportError(f"no package here brings the exporter {name}")


class Tracing:
    """Makes the spans; ``provider`` is a TracerProvider of OpenTelemetry."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import propagate, trace

        self.trace, self.propagate, self.provider = trace, propagate, provider
        self.tracer = provider.get_tracer("gpu_repo_runtime")
        self._models: deque[tuple[float, float, int]] = deque(maxlen=1024)

    def model_called(self, started: float, size: int) -> None:
        """Remember a call of the model that ended now; in its thread. ``started`` is of ``time.perf_counter``."""
        self._models.append((started, time.perf_counter(), size))

    def answered(self, call: Call) -> None:
        """Make the spans of a request whose call is done, inside its own."""
        if not self.trace.get_current_span().is_recording():
            return
        now, ahead = time.perf_counter(), time.time() - time.perf_counter()

        def span(name: str, begun: float, ended: float, parent: Any = None, size: int | None = None) -> Any:
            context = self.trace.set_span_in_context(parent) if parent else None
            about = {} if size is None else {"batch.size": size}
            made = self.tracer.start_span(name, context, start_time=int((begun + ahead) * 1e9), attributes=about)
            made.end(int((ended + ahead) * 1e9))
            return made

        span("queue", call.queued_at, call.started_at)
        batch = span("batch", call.started_at, now, size=call.batch_size)
        for begun, ended, size in list(self._models):
            if begun >= call.started_at:
                span("model", begun, ended, batch, size=size)
                break

    async def flush(self) -> None:
        """Send what is not sent yet, for no longer than FLUSH_SECONDS."""
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def send() -> None:
            self.provider.force_flush(int(FLUSH_SECONDS * 1e3))
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=send, daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), FLUSH_SECONDS)
        except TimeoutError:
            log.warning("the last traces were not sent within %g s", FLUSH_SECONDS)


class TraceRequests:
    """A span for each request that is not a probe, inside the trace that the client's headers name."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on within its span."""
        if scope["type"] != "http" or scope["path"] in QUIET:
            return await self._app(scope, receive, send)
        trace = self._tracing.trace
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with self._tracing.tracer.start_as_current_span(
            scope["method"],
            self._tracing.propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes={"http.request.method": scope["method"], "url.path": scope["path"]},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def tell(status: int) -> None:
                route = getattr(scope.get("route"), "path", "")
                span.update_name(f"{scope['method']} {route}".strip())
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            async def send_and_tell(message: Message) -> None:
                if message["type"] == "http.response.start":
                    tell(message["status"])
                await send(message)

            try:
                await self._app(scope, receive, send_and_tell)
            except Exception as error:
                tell(getattr(error, "status", 500))
                raise
