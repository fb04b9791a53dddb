"""HTTP around predictions: id, log line, count, limits of the body, and errors as problem+json, for every request.

Plain ASGI: Starlette's BaseHTTPMiddleware hides from the application that a client has gone.
"""

import asyncio
import inspect
import logging
import os
import random
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from opentelemetry import trace
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import logs
from .errors import ServiceError
from .metrics import Metrics
from .schemas import PLAIN, PROBLEM, Problem, to_json
from .service import Service

# Returns the body of the answer to a body, or the whole answer. Raises ServiceError.
Answer = Callable[[Scope, Receive, bytes], Awaitable[bytes | Response]]

log = logging.getLogger(__name__)
# Probes and scrapes: no spans, and no lines in the log.
QUIET = frozenset({"/", "/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
# Looking for a span that nobody records takes 2 of the 80 microseconds of a small request.
TRACING = any(name.startswith("OTEL_") for name in os.environ)
usable_id = re.compile(rb"[A-Za-z0-9._-]{1,100}").fullmatch


class RequestMiddleware:
    """The outermost one. ``scope["fields"]`` are the fields of the request's log line, besides status and time."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service
        self._metrics: Metrics = service.metrics
        self._root = service.settings.root_path
        self._version = (b"x-model-version", service.settings.app_version.encode())
        self._lines: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer if the owner's middleware raises an error."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, path = time.perf_counter(), scope["path"]
        if self._root:
            scope["root_path"] = self._root
            if not f"{path}/".startswith(f"{self._root}/"):  # a gateway has removed it; ASGI has it in both
                scope["path"] = self._root + path
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not usable_id(request_id):
            request_id = b"%032x" % random.getrandbits(128)
        scope["fields"] = {"request_id": request_id.decode()}
        status = 0
        end: Message | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status, end
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id), self._version]
                if self._service.state in ("draining", "failed"):
                    own.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *own]
            elif not message.get("body") and not message.get("more_body"):
                end = message  # BaseHTTPMiddleware ends an answer that broke off, and only then raises the error
                return
            await send(message)

        try:
            body = RequestBody(receive, headers.get(b"content-length", b""), self._service)
            await self.app(scope, body, send_with_id)
            if end:
                await send(end)
        except (Exception, asyncio.CancelledError) as error:
            shown = self._shown(error, scope)
            if status:  # half an answer is sent: only a closed connection can show the error
                raise
            await problem(shown, scope)(scope, receive, send_with_id)
        finally:
            self._record(scope, path, status or 499, time.perf_counter() - started)

    def _shown(self, error: BaseException, scope: Scope) -> HTTPException:
        """Return what a client sees of an error."""
        if isinstance(error, HTTPException):
            return error
        if isinstance(error, asyncio.CancelledError):  # the time to stop is over
            self._service.unfinished += 1
            return ServiceError("the service stopped before the answer was there", "not_ready", retry_after=1)
        log.error("internal error", exc_info=error, extra={"fields": dict(scope["fields"])})
        return ServiceError("the log has the traceback under this request id")

    def _record(self, scope: Scope, path: str, status: int, seconds: float) -> None:
        fields, metrics = scope["fields"], self._metrics
        route = str(scope.get("predicts") or getattr(scope.get("route"), "path", "unmatched"))
        metrics.answered(route, status)
        if "rejected" in scope:
            metrics.rejected.labels(scope["rejected"]).inc()
        if status == 200 and "batch" in fields:
            metrics.request_seconds.observe(seconds)
        if route not in QUIET or status == 500:
            fields |= {"method": scope["method"], "path": path, "status": status, "ms": round(seconds * 1e3, 2)}
            if not self._lines:  # those of all requests that end together: this takes half the time
                asyncio.get_running_loop().call_soon(self._write_lines)
            self._lines.append(fields)

    def _write_lines(self) -> None:
        lines, self._lines = self._lines, []
        logs.write_requests(lines)


class RequestBody:
    """``receive`` within MAX_BODY_BYTES and BODY_SECONDS. Raises ServiceError."""

    __slots__ = ("_announced", "_complete", "_ends", "_receive", "_service", "_size")

    def __init__(self, receive: Receive, announced: bytes, service: Service) -> None:
        self._receive, self._service, self._complete, self._size = receive, service, False, 0
        self._announced = int(announced) if announced.isdigit() else 0
        self._ends = time.perf_counter() + service.settings.body_seconds

    async def __call__(self) -> Message:
        """Return the next message."""
        if self._complete:
            return await self._receive()
        self._check_size(self._announced)
        task = asyncio.current_task()
        assert task
        self._service.reading[task] = self._ends
        self._service.tick()
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if time.perf_counter() < self._ends:
                raise
            task.uncancel()
            seconds = self._service.settings.body_seconds
            raise ServiceError(f"the body was not complete after {seconds:g} s", "body_too_slow") from None
        finally:
            del self._service.reading[task]
        self._complete = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        self._check_size(self._size)
        return message

    def _check_size(self, size: int) -> None:
        if size > (limit := self._service.body_limit):
            raise ServiceError(f"at most {limit} bytes are accepted", "body_too_large")


class PredictMiddleware:
    """Answers the paths of ``answers``, inside the owner's middleware; the router takes most of a small request's time.

    ``handlers`` are the exception handlers of the application, the owner's too.
    """

    def __init__(self, app: ASGIApp, answers: dict[str, Answer], handlers: dict[Any, Any]) -> None:
        self.app, self._answers, self._handlers = app, answers, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        path = scope["path"].removeprefix(scope.get("root_path", "")) if scope["type"] == "http" else ""
        answer = self._answers.get(path)
        if answer is None or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        scope["predicts"] = path
        try:
            content = await answer(scope, receive, await read_body(scope, receive))
        except HTTPException as error:
            kinds = (error.status_code, *type(error).__mro__)
            handler = next(self._handlers[kind] for kind in kinds if kind in self._handlers)
            response = handler(Request(scope, receive), error)
            content = await response if inspect.isawaitable(response) else response
        if TRACING and (span := trace.get_current_span()).is_recording():  # the router does not see the request
            span.update_name(f"POST {path}")
            span.set_attributes({"http.route": path, **scope["fields"]})
        if isinstance(content, Response):
            return await content(scope, receive, send)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Return the body of a request. Raises ServiceError."""
    if dict(scope["headers"]).get(b"content-encoding", b"identity") != b"identity":
        raise ServiceError("send the body without Content-Encoding; a gateway can decompress it", "encoded")
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ServiceError("the client closed the connection before its body was complete", "client_gone")
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def problem(error: HTTPException, scope: Scope) -> Response:
    """Return the answer that reports an error to a client."""
    if isinstance(error, ServiceError):
        scope["rejected"] = error.code
        if error.code == "client_gone":
            return Response(None, error.status)
        about: dict[str, Any] = {"title": error.title, "code": error.code, "errors": error.errors}
        detail = error.detail
    else:
        # FastAPI accepts any JSON as the detail.
        detail = error.detail if isinstance(error.detail, str) else to_json(error.detail).decode()
        about = {"title": detail, "code": "http"}
    request_id = scope["fields"]["request_id"]
    body = Problem(**about, status=error.status_code, detail=detail, error=detail, request_id=request_id)
    plain = scope["path"].removeprefix(scope.get("root_path", "")).startswith(("/v1/", "/v2/"))
    media_type = PLAIN if plain else PROBLEM
    return Response(body.model_dump_json(exclude_none=True), error.status_code, error.headers, media_type)
