"""Predictions over HTTP: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out, for each path and protocol."""

import zlib
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from . import tracing
from .call import Call
from .errors import BodyTooLarge, ClientGone, Encoded, InvalidRequest, NotJson, ServiceError
from .middleware import problem
from .schemas import Asked
from .service import Service

T = TypeVar("T")
Answer = Callable[[Scope, Receive], Awaitable[bytes]]
LONGEST_IDENTITY = 64


class Predictions:
    """Reads requests, waits for their outputs and writes them."""

    def __init__(self, service: Service) -> None:
        self._service, self._body_limit, self._request = service, service.settings.body_limit, service.request
        self._has_blob = service.interface.blob is not None
        self._client_header = service.settings.client_header.lower().encode()

    async def answer(self, scope: Scope, receive: Receive, *, any_type: bool = False) -> bytes:
        """Return the body of the answer. Raises ServiceError.

        ``any_type``: curl -d, as the pages of the protocol V1 show it, declares a form.
        """
        media_type = _header(scope, b"content-type").partition(b";")[0].strip().lower()
        is_blob = self._has_blob and (media_type.startswith(b"image/") or media_type == b"application/octet-stream")
        if media_type != b"application/json" and not is_blob and not any_type:
            image = ", or image/... with one input as the body" if self._has_blob else ""
            raise NotJson(f"send the header Content-Type: application/json{image}")
        body = await self.body(scope, receive)
        asked = self._request.read_one(body) if is_blob else self._request.read(body)
        del body  # the inputs stay in memory while they wait, not their JSON too
        return b'{"predictions":%b}' % await self.outputs(asked, scope, receive, self._service.json)

    async def outputs(self, asked: Asked, scope: Scope, receive: Receive, written: Callable[[Call], T]) -> T:
        """Return the outputs of a request as ``written`` writes them. Raises ServiceError.

        The request's log line gets the size of its batch and its time in the queue.
        """
        try:
            call = await self._service.call(asked.inputs, asked.parameters, receive, self._client(scope))
            outputs = written(call)
        except ServiceError as error:
            raise _renamed(asked.name, error) from error.__cause__
        scope["fields"].update(
            inputs=len(asked.inputs),
            batch=call.batch_size,
            queue_ms=round((call.started_at - call.queued_at) * 1e3, 2),
        )
        return outputs

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body, decompressed. Raises Encoded, BodyTooLarge, BodyTooSlow, InvalidRequest or ClientGone."""
        pieces: list[bytes] = []
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client closed the connection before its body was complete")
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        encoding = _header(scope, b"content-encoding").strip().lower()
        if encoding in (b"", b"identity"):
            return body
        if encoding not in (b"gzip", b"x-gzip"):
            raise Encoded("send the body as it is, or with Content-Encoding: gzip")
        return _gunzipped(body, self._body_limit)

    def _client(self, scope: Scope) -> Hashable:
        """Return who is quarantined if an input fails: the value of CLIENT_HEADER, else the address."""
        if self._client_header and (value := _header(scope, self._client_header)):
            return value if len(value) <= LONGEST_IDENTITY else sha256(value).digest()
        address = scope.get("client")
        return address[0] if address else None


class PredictMiddleware:
    """Answers the paths of ``answers`` without the router, which takes most of a small request's time.

    It is inside the owner's middleware, before ProblemMiddleware. ``answers`` is decided at the start; without it the
    routes of the router answer.
    """

    def __init__(self, app: ASGIApp, answers: dict[str, tuple[Answer, Any]]) -> None:
        self.app, self._answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        found = self._answers.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            if root := scope.get("root_path"):
                _add_root(root, scope)
            return await self.app(scope, receive, send)
        answer, scope["route"] = found
        tracing.name_span("POST", scope["path"])
        try:
            content = await answer(scope, receive)
        except ClientGone:
            raise
        except HTTPException as error:  # the owner's middleware sees it as an answer
            return await problem(error, scope)(scope, receive, send)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def endpoint(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """Return the same as a route of the router: for the OpenAPI document, and for exception handlers of the owner."""

    async def predict(request: Request) -> Response:
        """Predict one or many inputs."""
        return Response(await answer(request.scope, request.receive), media_type="application/json")

    return predict


def _header(scope: Scope, wanted: bytes) -> bytes:
    for name, value in scope["headers"]:
        if name == wanted:
            return bytes(value)
    return b""


def _gunzipped(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(body, limit + 1)
    except zlib.error:
        raise InvalidRequest("the body is not gzip") from None
    if len(content) > limit:
        raise BodyTooLarge(f"at most {limit} bytes are accepted, decompressed")
    if not stream.eof:
        raise InvalidRequest("the gzip body is not complete")
    return content


def _add_root(root: str, scope: Scope) -> None:
    """Add the prefix that a gateway has removed, as ASGI defines it: mounted applications expect it."""
    if scope["path"] != root and not scope["path"].startswith(f"{root}/"):
        scope["path"] = root + scope["path"]
        if raw_path := scope.get("raw_path"):
            scope["raw_path"] = root.encode() + raw_path


def _renamed(name: str, error: ServiceError) -> ServiceError:
    """Return the error with the name that the request has for its inputs."""
    if name != "instances":
        error.detail = error.detail.replace("instances.", f"{name}.")
        for fault in error.errors or []:
            fault["field"] = fault["field"].replace("instances.", f"{name}.")
    return error
