"""A request that asks for another protocol is answered in this one, as RFC 9110, section 7.8 allows.

Java's HttpClient asks for HTTP/2 so with every first request. The parser takes what follows the head for the other
protocol and skips the body; so a second parser, which is told how long the body is, goes on behind the head.
"""

from typing import TYPE_CHECKING, Any

import httptools

if TYPE_CHECKING:
    from .connection import Connection

FRAMING = (b"content-length", b"transfer-encoding")


class _BehindHead:
    """What a parser calls: of its first head, which no client sent, nothing reaches the connection."""

    def __init__(self, connection: "Connection") -> None:
        self._connection, self._in_first_head = connection, True
        self.on_body, self.on_message_complete = connection.on_body, connection.on_message_complete

    def on_message_begin(self) -> None:
        if not self._in_first_head:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._in_first_head:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_first_head:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._in_first_head:
            self._connection.on_headers_complete()
        self._in_first_head = False


def parse_body(connection: "Connection") -> None:
    """Let a new parser go on behind the head of the connection's request. Raises HttpParserError."""
    head = b"".join(b"%b: %b\r\n" % pair for pair in connection.headers if pair[0] in FRAMING)
    parser: Any = httptools.HttpRequestParser(_BehindHead(connection))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
    connection.parser = parser
    parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % head)
