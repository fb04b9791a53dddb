"""Around every request: its id, its line in the log, its count, the limits of its body, and errors as problem+json.

Plain ASGI: Starlette's BaseHTTPMiddleware hides from the application that a client has gone.
"""

import asyncio
import logging
import random
import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import logs
from .errors import ClientGone, ServiceError
from .schemas import PLAIN, PROBLEM, Problem, to_json
from .service import Service
from .tracing import QUIET

log = logging.getLogger(__name__)
WITHOUT_BODY = frozenset({204, 205, 304})
usable_id = re.compile(rb"[A-Za-z0-9._-]{1,100}").fullmatch


class RequestMiddleware:
    """The outermost one. ``scope["fields"]`` are the fields of the request's log line, besides status and time."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service
        self._root = service.settings.root_path
        self._lines: list[dict[str, Any]] = []
        self._version = (b"x-model-version", service.settings.app_version.encode())
        self._body_limit, self._body_seconds = service.settings.body_limit, service.settings.body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer if the owner's middleware raises an error."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.perf_counter()
        method, path = scope["method"], scope["path"]
        if self._root:
            scope["root_path"] = self._root
        request_id, length = _id_and_length(dict(scope["headers"]))
        scope["fields"] = {"request_id": request_id.decode()}
        status = 0
        end: Message | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status, end
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id), self._version]
                if self._service.state == "draining":
                    own.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *own]
            elif not message.get("body") and not message.get("more_body"):
                # BaseHTTPMiddleware ends an answer that broke off, and only then raises the error.
                end = message
                return
            await send(message)

        try:
            body = RequestBody(receive, length, self._body_limit, self._body_seconds)
            await self.app(scope, body, send_with_id)
            if end:
                await send(end)
        except ClientGone as error:
            scope["rejected"], status = error.code, error.status
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():  # the time to stop is over
                self._service.unfinished += 1
                error = ServiceError("the service stopped before the answer was there", "not_ready", retry_after=1)
            if status:  # half an answer is sent: only a closed connection can show the error
                raise
            if not isinstance(error, HTTPException):
                log.error("internal error", exc_info=error, extra={"fields": dict(scope["fields"])})
                error = ServiceError("the log has the traceback under this request id")
            await problem(error, scope)(scope, receive, send_with_id)
            if end:
                await send(end)
        finally:
            self._record(scope, method, path, status or 499, time.perf_counter() - started)

    def _record(self, scope: Scope, method: str, path: str, status: int, seconds: float) -> None:
        metrics, fields = self._service.metrics, scope["fields"]
        route = str(scope.get("predicts") or getattr(scope.get("route"), "path", "unmatched"))
        metrics.answered(route, status)
        if "rejected" in scope:
            metrics.rejected.labels(scope["rejected"]).inc()
        if status == 200 and "batch" in fields:
            metrics.request_seconds.observe(seconds)
        if route not in QUIET or status == 500:
            fields |= {"method": method, "path": path, "status": status, "ms": round(seconds * 1e3, 2)}
            if not self._lines:  # those of all requests that end together: this takes half the time
                asyncio.get_running_loop().call_soon(self._write_lines)
            self._lines.append(fields)

    def _write_lines(self) -> None:
        lines, self._lines = self._lines, []
        logs.write_requests(lines)


class RequestBody:
    """``receive`` within MAX_BODY_BYTES and BODY_SECONDS. Raises ServiceError."""

    __slots__ = ("_complete", "_ends", "_length", "_limit", "_receive", "_seconds", "_size")

    def __init__(self, receive: Receive, length: int, limit: int, seconds: float) -> None:
        self._receive, self._length, self._limit, self._seconds = receive, length, limit, seconds
        self._size, self._ends, self._complete = 0, 0.0, False

    async def __call__(self) -> Message:
        """Return the next message."""
        if self._complete:
            return await self._receive()
        if self._length > self._limit:
            raise self._too_large()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task
        self._ends = self._ends or loop.time() + self._seconds
        timer = loop.call_at(self._ends, task.cancel, self)  # asyncio.timeout takes four times as long
        try:
            message = await self._receive()
        except asyncio.CancelledError as error:
            if error.args != (self,):
                raise
            task.uncancel()
            raise ServiceError(f"the body was not complete after {self._seconds:g} s", "body_too_slow") from None
        finally:
            timer.cancel()
        self._complete = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise self._too_large()
        return message

    def _too_large(self) -> ServiceError:
        return ServiceError(f"at most {self._limit} bytes are accepted", "body_too_large")


def problem(error: HTTPException, scope: Scope) -> Response:
    """Return the answer that reports an error to a client."""
    request_id = scope["fields"]["request_id"]
    if isinstance(error, ServiceError):
        scope["rejected"] = error.code
        about: dict[str, Any] = {"title": error.title, "code": error.code, "errors": error.errors}
        detail = error.detail
    else:
        if error.status_code in WITHOUT_BODY:
            return Response(None, error.status_code, error.headers)
        # FastAPI accepts any JSON as the detail.
        detail = error.detail if isinstance(error.detail, str) else to_json(error.detail).decode()
        about = {"title": detail, "code": "http"}
    body = Problem(**about, status=error.status_code, detail=detail, error=detail, request_id=request_id)
    plain = scope["path"].removeprefix(scope.get("root_path", "")).startswith(("/v1/", "/v2/"))
    media_type = PLAIN if plain else PROBLEM
    return Response(body.model_dump_json(exclude_none=True), error.status_code, error.headers, media_type)


def _id_and_length(headers: dict[bytes, bytes]) -> tuple[bytes, int]:
    """Return the client's request id, or a new one, and the length that it gives for the body."""
    request_id, length = headers.get(b"x-request-id", b""), headers.get(b"content-length", b"0")
    if not usable_id(request_id):
        request_id = b"%032x" % random.getrandbits(128)
    return request_id, int(length) if length.isdigit() else 0
