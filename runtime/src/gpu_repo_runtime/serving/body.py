"""The body of a request, read no further than allowed."""

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Scope

from .errors import BodyTooLarge, BodyTooSlow, ClientGone, NotJson, UpgradeAsked
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
    """The body and its media type. Raises NotJson, BodyTooLarge, BodyTooSlow, ClientGone or UpgradeAsked."""
    length, media_type, upgrade = None, b"", False
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value
        elif name == b"content-type":
            media_type = value
        elif name == b"upgrade":
            upgrade = True
    media_type = media_type.partition(b";")[0].strip().lower()
    if not accepts(media_type):
        raise NotJson(f"send the header {wanted}")
    too_large = BodyTooLarge(f"at most {settings.body_limit} bytes are accepted")
    if length is not None and int(length) > settings.body_limit:
        raise too_large
    body, more = b"", True
    try:
        async with asyncio.timeout(settings.body_seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("the client hung up before its body was complete")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > settings.body_limit:
                    raise too_large
    except TimeoutError:
        raise BodyTooSlow(f"the body was not complete after {settings.body_seconds:g} s") from None
    if upgrade and not body:  # httptools skips the body of such a request, which Java's HttpClient sends by default
        raise UpgradeAsked("send no header Upgrade: the client is to speak HTTP/1.1 from the start")
    return body, media_type
