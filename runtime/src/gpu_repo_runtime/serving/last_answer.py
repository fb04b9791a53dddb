"""What a connection is told that ends before the application has seen the request."""

from collections.abc import Iterable

from .schemas import PROBLEM, Problem

# Status -> the code and the way out that stand in the answer.
REFUSALS = {
    400: ("bad_request", "what came is not a whole request, or not one of HTTP"),
    408: ("head_too_slow", "send the whole head of the request within BODY_SECONDS"),
    414: ("url_too_long", "the path and its query may have 8 KiB"),
    429: ("too_many_at_once", "read answers before you send more on this connection"),
    431: ("head_too_large", "head, trailers and chunk marks may have 64 KiB and 100 headers"),
    505: ("version_not_supported", "speak version 1.1 of HTTP"),
}


def last_answer(
    status: bytes, request_id: str, version: str, default_headers: Iterable[tuple[bytes, bytes]], *, with_body: bool
) -> bytes:
    """Return the bytes of the answer; ``status`` is the number and the phrase, ``version`` the service's."""
    number, _, title = status.decode().partition(" ")
    code, detail = REFUSALS[int(number)]
    problem = Problem(
        title=title, status=int(number), code=code, detail=detail, request_id=request_id, error=detail
    ).model_dump_json(exclude_none=True)
    lines = b"".join(b"%b: %b\r\n" % pair for pair in default_headers)
    about = (
        f"content-type: {PROBLEM}\r\ncontent-length: {len(problem)}\r\nx-request-id: {request_id}\r\n"
        f"x-model-version: {version}\r\nconnection: close\r\n\r\n"
    )
    return b"HTTP/1.1 %b\r\n%b%b" % (status, lines, (about + problem * with_body).encode())
