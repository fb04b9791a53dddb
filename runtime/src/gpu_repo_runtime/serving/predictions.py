"""What answers a request for predictions, under whichever path and in whichever protocol it comes."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError
from starlette.types import ASGIApp, Receive, Scope, Send

from .body import is_json, read_body
from .call import Call
from .errors import PredictionFailed, ServiceError
from .schemas import Asked, to_json
from .service import Service

T = TypeVar("T")
Answer = Callable[[Scope, Receive], Awaitable[bytes]]


class Predictions:
    """``{"instances": [...]}`` in, ``{"predictions": [...]}`` out."""

    def __init__(self, service: Service) -> None:
        self._service, self._settings, self._request = service, service.settings, service.request
        self._blob = service.interface.blob is not None
        self._wanted = "Content-Type: application/json" + (", or image/... with one input as the body" * self._blob)

    async def answer(self, scope: Scope, receive: Receive) -> bytes:
        """The body of the answer. Raises ServiceError."""
        return await self._answer(scope, receive, self._accepts)

    async def answer_v1(self, scope: Scope, receive: Receive) -> bytes:
        """The same without a check of the media type: curl -d, as the protocols' own pages show it, declares a form."""
        return await self._answer(scope, receive, lambda _: True)

    async def _answer(self, scope: Scope, receive: Receive, accepts: Callable[[bytes], bool]) -> bytes:
        body, media_type = await read_body(scope, receive, self._settings, accepts, self._wanted)
        is_blob = self._is_blob(media_type)
        asked = self._request.read_one(body) if is_blob else self._request.read(body)
        del body  # the inputs are held while they wait, and not their JSON too
        return b'{"predictions":%b}' % await self.outputs(asked, scope, receive, self._service.json)

    async def outputs(self, asked: Asked, scope: Scope, receive: Receive, written: Callable[[Call], T]) -> T:
        """The outputs for what was asked, as ``written`` writes them. Raises ServiceError.

        The request's log line gets what it took.
        """
        try:
            client = self._service.client_of(scope)
            call = await self._service.call(asked.inputs, asked.parameters, receive, client)
            outputs = written(call)
        except ServiceError as error:
            raise in_the_words_of(asked.name, error) from error.__cause__
        scope["fields"].update(
            inputs=len(asked.inputs),
            batch=call.batch_size,
            queue_ms=round((call.started_at - call.queued_at) * 1e3, 2),
        )
        return outputs

    def _accepts(self, media_type: bytes) -> bool:
        return is_json(media_type) or self._is_blob(media_type)

    def _is_blob(self, media_type: bytes) -> bool:
        return self._blob and (media_type.startswith(b"image/") or media_type == b"application/octet-stream")


class Direct:
    """Answers the paths of ``answers`` without the application's router, which takes most of a small request's time.

    It is the innermost middleware: whatever an owner adds has seen the request before.
    """

    def __init__(self, app: ASGIApp, answers: dict[str, tuple[Answer, object]]) -> None:
        self.app, self.answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        found = self.answers.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            if root := scope.get("root_path"):
                _put_in_front(root, scope)
            try:
                return await self.app(scope, receive, send)
            except BaseException as error:
                scope.get("raised", []).append(type(error))
                raise
        answer, scope["route"] = found
        content = await answer(scope, receive)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _put_in_front(root: str, scope: Scope) -> None:
    """Name the path with what a gateway has taken away, as ASGI wants it: mounted applications look for it there."""
    if scope["path"] != root and not scope["path"].startswith(f"{root}/"):
        scope["path"] = root + scope["path"]
        if raw_path := scope.get("raw_path"):
            scope["raw_path"] = root.encode() + raw_path


def encoded(answer: dict[str, Any]) -> bytes:
    """JSON of an answer. Raises PredictionFailed."""
    try:
        return to_json(answer)
    except PydanticSerializationError as error:
        raise PredictionFailed(f"the model returned what JSON does not have: {error}") from error


def in_the_words_of(name: str, error: ServiceError) -> ServiceError:
    """Return the error with the name that the request gave to its inputs."""
    if name not in ("", "instances"):
        error.detail = error.detail.replace("instances.", f"{name}.")
        for fault in error.errors or []:
            fault["field"] = fault["field"].replace("instances.", f"{name}.")
    return error
