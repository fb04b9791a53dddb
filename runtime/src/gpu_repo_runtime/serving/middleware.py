"""Around every request: its id, its line in the log, its count, the limits of its body, and errors as problem+json.

Plain ASGI: Starlette's BaseHTTPMiddleware hides from the application that a client has gone.
"""

import asyncio
import logging
import os
import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import BodyTooLarge, BodyTooSlow, ClientGone, NotReady, ServiceError
from .schemas import PLAIN, PROBLEM, Problem, to_json
from .service import Service
from .tracing import QUIET

log = logging.getLogger(__name__)
access_log = logging.getLogger("request")
WITHOUT_BODY = frozenset({204, 205, 304})
usable_id = re.compile(rb"[A-Za-z0-9._-]{1,100}").fullmatch


class RequestMiddleware:
    """The outermost one. ``scope["fields"]`` are the fields of the request's log line, besides status and time."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service
        self._root = service.settings.root_path
        self._version = (b"x-model-version", service.settings.app_version.encode())
        self._body_limit, self._body_seconds = service.settings.body_limit, service.settings.body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer if the owner's middleware raises an error."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.perf_counter()
        method, path = scope["method"], scope["path"]
        if method == "HEAD":  # answered like GET, without the body
            scope = {**scope, "method": "GET"}
        if self._root:
            scope["root_path"] = self._root
        fields = scope["fields"] = {"request_id": _request_id(scope)}
        status = 0
        end: Message | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status, end
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", fields["request_id"].encode()), self._version]
                if self._service.state == "draining":
                    own.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *own]
            elif method == "HEAD":
                message = {**message, "body": b""}
            if "broken_off" in scope and not message.get("more_body"):
                end = message  # BaseHTTPMiddleware ends an answer that broke off, and only then raises the error
            else:
                await send(message)

        try:
            await self.app(scope, RequestBody(scope, receive, self._body_limit, self._body_seconds), send_with_id)
            if end:
                await send(end)
        except ClientGone as error:
            scope["rejected"], status = error.code, error.status
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():  # the time to stop is over
                self._service.unfinished += 1
                error = NotReady("the service stopped before the answer was there", retry_after=1)
            if status:  # half an answer is sent: only a closed connection can show the error
                raise
            await problem(as_http(error, scope), scope)(scope, receive, send_with_id)
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            self._record(scope, route, method, path, status or 499, time.perf_counter() - started)

    def _record(self, scope: Scope, route: str, method: str, path: str, status: int, seconds: float) -> None:
        metrics, fields = self._service.metrics, scope["fields"]
        metrics.answered(route, status)
        if "rejected" in scope:
            metrics.rejected.labels(scope["rejected"]).inc()
        if status == 200 and "batch" in fields:
            metrics.request_seconds.observe(seconds)
        if route not in QUIET or status == 500:
            fields |= {"method": method, "path": path, "status": status, "ms": round(seconds * 1e3, 2)}
            access_log.log(logging.ERROR if status == 500 else logging.INFO, "request", extra={"fields": fields})


class ProblemMiddleware:
    """The innermost one: answers for errors with a status, so that the owner's middleware sees them as answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientGone:
            raise
        except BaseException as error:
            if started:
                scope["broken_off"] = True
            if started or not isinstance(error, HTTPException):
                raise
            await problem(error, scope)(scope, receive, send)


class RequestBody:
    """``receive`` within MAX_BODY_BYTES and BODY_SECONDS. Raises BodyTooLarge or BodyTooSlow."""

    __slots__ = ("_complete", "_ends", "_limit", "_receive", "_scope", "_seconds", "_size")

    def __init__(self, scope: Scope, receive: Receive, limit: int, seconds: float) -> None:
        self._scope, self._receive, self._limit, self._seconds = scope, receive, limit, seconds
        self._size, self._ends, self._complete = 0, 0.0, False

    async def __call__(self) -> Message:
        """Return the next message."""
        if self._complete:
            return await self._receive()
        if not self._ends:
            self._ends = asyncio.get_running_loop().time() + self._seconds
            self._check(_content_length(self._scope))
        try:
            async with asyncio.timeout_at(self._ends):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow(f"the body was not complete after {self._seconds:g} s") from None
        self._complete = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        self._check(self._size)
        return message

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLarge(f"at most {self._limit} bytes are accepted")


def as_http(error: BaseException, scope: Scope) -> HTTPException:
    """Return the error with a status that an exception stands for; log the traceback of one without."""
    if isinstance(error, HTTPException):
        return error
    log.error("internal error", exc_info=error, extra={"fields": dict(scope["fields"])})
    return ServiceError("the log has the traceback under this request id")


def problem(error: HTTPException, scope: Scope) -> Response:
    """Return the answer that reports an error to a client."""
    request_id, headers = scope["fields"]["request_id"], dict(error.headers or {})
    if isinstance(error, ServiceError):
        scope["rejected"] = error.code
        about: dict[str, Any] = {"title": error.title, "code": error.code, "detail": error.detail}
        body = Problem(**about, status=error.status, error=error.detail, request_id=request_id, errors=error.errors)
    else:
        if allowed := headers.get("Allow"):  # HEAD is answered like GET here
            headers["Allow"] = re.sub(r"\bGET\b(?!.*\bHEAD\b)", "GET, HEAD", allowed)
        if error.status_code in WITHOUT_BODY:
            return Response(None, error.status_code, headers)
        # FastAPI accepts any JSON as the detail.
        detail = error.detail if isinstance(error.detail, str) else to_json(error.detail).decode()
        about = {"title": detail, "code": "http", "detail": detail, "error": detail}
        body = Problem(**about, status=error.status_code, request_id=request_id)
    plain = scope["path"].removeprefix(scope.get("root_path", "")).startswith(("/v1/", "/v2/"))
    return Response(body.model_dump_json(exclude_none=True), error.status_code, headers, PLAIN if plain else PROBLEM)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and usable_id(value):
            return str(value, "ascii")
    return os.urandom(16).hex()
