"""Around every request: its id, its line in the log, its count, and errors as problems (RFC 9457).

Plain ASGI on purpose: Starlette's BaseHTTPMiddleware hides from the application that a client has gone.
"""

import asyncio
import logging
import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .body import LimitedBody
from .errors import NotReady, ServiceError
from .head import check_head, new_id
from .ledger import Ledger
from .schemas import PLAIN, PROBLEM, Problem, to_json
from .service import Service

log = logging.getLogger("request")
WITHOUT_BODY = frozenset({204, 205, 304})
usable_id = re.compile(rb"[A-Za-z0-9._-]{1,100}").fullmatch


class RequestMiddleware:
    """``scope["fields"]`` is what the request's log line says besides method, path, status and time."""

    def __init__(self, app: ASGIApp, service: Service, limited: frozenset[str] = frozenset()) -> None:
        """``limited``: paths whose body nothing reads but what knows the limits."""
        self.app, self._service, self._limited = app, service, limited
        self._ledger = Ledger(service)
        self._root = service.settings.root_path
        self._version = (b"x-model-version", service.settings.app_version.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer for what it raises."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = scope.get("started") or time.perf_counter()
        method, path = scope["method"], scope["path"]
        if method == "HEAD":  # answered like GET, less the body
            scope = {**scope, "method": "GET"}
        if self._root:
            scope["root_path"] = self._root
        fields = scope["fields"] = {"request_id": _request_id(scope)}
        raised = scope["raised"] = []  # what Direct has seen pass
        status, version = 0, self._version
        body, end = None, None
        if scope["path"] not in self._limited:
            receive = body = LimitedBody(receive, self._service.settings)

        async def send_with_id(message: Message) -> None:
            nonlocal status, end
            if message["type"] == "http.response.start":
                if body and body.error and not status:  # whoever read the body has made another error of it
                    raise body.error
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", fields["request_id"].encode()), version]
                if self._service.state == "draining":
                    message["headers"].append((b"connection", b"close"))
            elif method == "HEAD":
                message = {**message, "body": b""}
            if raised and message["type"] == "http.response.body" and not message.get("more_body"):
                end = message  # BaseHTTPMiddleware ends an answer that broke off, and raises only then
            else:
                await send(message)

        async def answer(error: ServiceError) -> None:
            raised.clear()
            await problem(error, scope)(scope, receive, send_with_id)

        try:
            check_head(scope)
            await self.app(scope, receive, send_with_id)
            if end is not None:
                await send(end)
        except ServiceError as error:
            self._service.metrics.rejected.labels(error.code).inc()
            if status and error.status != 499:  # half an answer is out: only closing the connection can tell
                raise
            status = error.status
            if error.status != 499:
                await answer(error)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():  # the time to stop is over
                self._service.unfinished += 1
                if not status:
                    stopped = NotReady("the service stopped before the answer was there", retry_after=1)
                    await answer(stopped)
                return
            # A route of the owner may raise any of them, and the service goes on.
            log.exception("internal error", extra={"fields": fields})
            if status:
                raise
            await answer(ServiceError("the log has the traceback under this request id"))
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            self._ledger.enter(route, fields, method, path, status or 499, time.perf_counter() - started)


def problem(error: ServiceError | HTTPException, scope: Scope) -> Response:
    """The answer that tells a client about ``error``."""
    request_id = scope["fields"]["request_id"]
    if isinstance(error, HTTPException):
        status, headers = error.status_code, dict(error.headers or {})
        if allowed := headers.get("Allow"):  # HEAD is answered like GET here
            headers["Allow"] = re.sub(r"\bGET\b(?!.*\bHEAD\b)", "GET, HEAD", allowed)
        if status in WITHOUT_BODY:
            return Response(None, status, headers)
        # FastAPI takes any JSON for it.
        detail = error.detail if isinstance(error.detail, str) else to_json(error.detail).decode()
        body = Problem(title=detail, status=status, code="http", detail=detail, request_id=request_id, error=detail)
    else:
        status, headers = error.status, dict(error.headers)
        if error.retry_after:
            headers["retry-after"] = str(error.retry_after)
        about: dict[str, Any] = {"title": error.title, "status": status, "code": error.code, "detail": error.detail}
        body = Problem(**about, error=error.detail, request_id=request_id, errors=error.errors)
    plain = scope["path"].removeprefix(scope.get("root_path", "")).startswith(("/v1/", "/v2/"))
    return Response(body.model_dump_json(exclude_none=True), status, headers, PLAIN if plain else PROBLEM)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and usable_id(value):
            return str(value, "ascii")
    return new_id()
