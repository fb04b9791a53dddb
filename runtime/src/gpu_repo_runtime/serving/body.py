"""The body of a request, read no further than allowed."""

import asyncio
from collections.abc import Callable

from starlette.types import Message, Receive, Scope

from .connection import is_whole
from .errors import BodyTooLarge, BodyTooSlow, ClientGone, NotJson, ServiceError
from .settings import Settings


def is_json(media_type: bytes) -> bool:
    """Whether a content type without its parameters, in small letters, is JSON."""
    return media_type == b"application/json"


async def read_body(
    scope: Scope,
    receive: Receive,
    settings: Settings,
    accepts: Callable[[bytes], bool] = is_json,
    wanted: str = "Content-Type: application/json",
) -> tuple[bytes, bytes]:
    """The body and its media type. Raises NotJson, BodyTooLarge, BodyTooSlow or ClientGone."""
    length, media_type = None, b""
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value
        elif name == b"content-type":
            media_type = value
    media_type = media_type.partition(b";")[0].strip().lower()
    if not accepts(media_type):
        raise NotJson(f"send the header {wanted}")
    if length is not None and int(length) > settings.body_limit:
        raise _too_large(settings)
    if is_whole(receive):
        body = await _rest(receive, settings)
    else:
        try:
            async with asyncio.timeout(settings.body_seconds):
                body = await _rest(receive, settings)
        except TimeoutError:
            raise _too_slow(settings) from None
    return body, media_type


async def _rest(receive: Receive, settings: Settings) -> bytes:
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client hung up before its body was complete")
        piece = message.get("body", b"")
        pieces.append(piece)
        size += len(piece)
        more = message.get("more_body", False)
        if size > settings.body_limit:
            raise _too_large(settings)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class LimitedBody:
    """``receive`` for code that knows no limits: an owner's routes and middleware.

    Raises BodyTooLarge or BodyTooSlow, which is also kept in ``error``: many a reader turns it into another one.
    """

    def __init__(self, receive: Receive, settings: Settings) -> None:
        self._receive, self._settings = receive, settings
        self._bytes, self._ends, self._whole = 0, 0.0, False
        self.error: ServiceError | None = None

    async def __call__(self) -> Message:
        """Return the next message."""
        if self._whole:
            return await self._receive()
        self._ends = self._ends or asyncio.get_running_loop().time() + self._settings.body_seconds
        try:
            async with asyncio.timeout_at(self._ends):
                message = await self._receive()
        except TimeoutError:
            self.error = _too_slow(self._settings)
            raise self.error from None
        self._whole = not message.get("more_body", False)
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._settings.body_limit:
            self.error = _too_large(self._settings)
            raise self.error
        return message


def _too_large(settings: Settings) -> BodyTooLarge:
    return BodyTooLarge(f"at most {settings.body_limit} bytes are accepted")


def _too_slow(settings: Settings) -> BodyTooSlow:
    return BodyTooSlow(f"the body was not complete after {settings.body_seconds:g} s")
