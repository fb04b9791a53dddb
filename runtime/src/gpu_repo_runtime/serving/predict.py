"""Predictions over HTTP: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out, for each path and protocol."""

import inspect
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from . import tracing
from .errors import ClientGone, ServiceError
from .schemas import Asked
from .service import Service

T = TypeVar("T")
Answer = Callable[[Scope, Receive], Awaitable[bytes | Response]]


class Predictions:
    """Reads requests, waits for their outputs and writes them."""

    def __init__(self, service: Service) -> None:
        self._service, self._request = service, service.request
        self._has_blob, self._write = service.interface.blob is not None, service.interface.json
        self._client_header = service.settings.client_header.lower().encode()

    async def answer(self, scope: Scope, receive: Receive, *, any_type: bool = False) -> bytes:
        """Return the body of the answer. Raises ServiceError.

        ``any_type``: curl -d, as the pages of the protocol V1 show it, declares a form.
        """
        media_type = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
        is_blob = self._has_blob and (media_type.startswith(b"image/") or media_type == b"application/octet-stream")
        if media_type != b"application/json" and not is_blob and not any_type:
            image = ", or image/... with one input as the body" if self._has_blob else ""
            raise ServiceError(f"send the header Content-Type: application/json{image}", "not_json")
        read = self._request.read_blob if is_blob else self._request.read
        # The inputs stay in memory while they wait, not their JSON too.
        asked = read(await self.body(scope, receive))
        return b'{"predictions":%b}' % await self.outputs(asked, scope, receive, self._write)

    async def outputs(self, asked: Asked, scope: Scope, receive: Receive, write: Callable[[list[Any]], T]) -> T:
        """Return the outputs of a request as ``write`` writes them. Raises ServiceError.

        The request's log line gets the size of its batch and its time in the queue.
        """
        call = await self._service.call(asked.inputs, asked.parameters, receive, self._client(scope))
        outputs = self._service.outputs(call, write)
        queue_ms = round((call.started_at - call.queued_at) * 1e3, 2)
        scope["fields"].update(inputs=len(asked.inputs), batch=call.batch_size, queue_ms=queue_ms)
        return outputs

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body. Raises ServiceError."""
        if dict(scope["headers"]).get(b"content-encoding", b"identity") != b"identity":
            raise ServiceError("send the body without Content-Encoding; a gateway can decompress it", "encoded")
        pieces: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client closed the connection before its body was complete")
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(pieces)

    def _client(self, scope: Scope) -> Hashable:
        """Return who is quarantined if an input fails: the value of CLIENT_HEADER, else the address."""
        if self._client_header and (value := dict(scope["headers"]).get(self._client_header)):
            return hash(value)  # which is short
        address = scope.get("client")
        return address[0] if address else None


class PredictMiddleware:
    """Answers the paths of ``answers``, inside the owner's middleware; the router takes most of a small request's time.

    ``handlers`` are the exception handlers of the application, the owner's too.
    """

    def __init__(self, app: ASGIApp, answers: dict[str, Answer], handlers: dict[Any, Any]) -> None:
        self.app, self._answers, self._handlers = app, answers, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if root := scope.get("root_path"):
            _add_root(root, scope)
        path = scope["path"][len(root or "") :] if scope["type"] == "http" and scope["method"] == "POST" else ""
        answer = self._answers.get(path)
        if answer is None:
            return await self.app(scope, receive, send)
        scope["predicts"] = path
        try:
            content = await answer(scope, receive)
        except ClientGone:
            raise
        except HTTPException as error:
            kinds = (error.status_code, *type(error).__mro__)
            handler = next(self._handlers[kind] for kind in kinds if kind in self._handlers)
            response = handler(Request(scope, receive), error)
            content = await response if inspect.isawaitable(response) else response
        if tracing.ENABLED:
            tracing.describe(path, scope["fields"])
        if isinstance(content, Response):
            return await content(scope, receive, send)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _add_root(root: str, scope: Scope) -> None:
    """Add the prefix that a gateway has removed, as ASGI defines it: mounted applications expect it."""
    if scope["path"] != root and not scope["path"].startswith(f"{root}/"):
        scope["path"] = root + scope["path"]
        if raw_path := scope.get("raw_path"):
            scope["raw_path"] = root.encode() + raw_path
