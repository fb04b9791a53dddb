"""uvicorn's HTTP protocol with limits on what comes before the application is asked.

uvicorn waits without end for the first byte and for the end of a request's head, and keeps a head of any size. The
limit counts all that is not body: the head, and what stands around and behind a chunked body.
"""

from asyncio import TimerHandle
from typing import Any

from .connection import Connection, Limits

HEAD_BYTES = 65_536
URL_BYTES = 8_192
HEADER_FIELDS = 100
# Requests that wait for the answer to another one of their connection; each takes far more memory than its bytes.
PIPELINED = 100
TOO_MANY_AT_ONCE = b"429 Too Many Requests"
HEAD_TOO_LARGE = b"431 Request Header Fields Too Large"
URL_TOO_LONG = b"414 URI Too Long"
# The smallest chunk is one byte of body in six bytes.
BYTES_AROUND_A_BYTE = 8


def http_protocol(limits: Limits) -> type["LimitedProtocol"]:
    """A protocol that closes connections which are silent, or are slower than ``limits`` allow."""
    return type("Protocol", (LimitedProtocol,), {"limits": limits})


class Refused(Exception):
    """The head of a request is not taken; its status stands in the protocol."""


class LimitedProtocol(Connection):
    """One connection; 400, 408, 414, 431 or 505 is the last answer of one that does not keep the limits."""

    _in_head, _arrived, _not_body, _data = False, 0, 0, 0
    _late: TimerHandle | None = None
    _refusal = b""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first byte no longer than for the next request."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._unset_keepalive_if_required()
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; the next ones are read only within the limits."""
        self._data = len(data)
        self._arrived += self._data
        self._not_body += self._data
        super().data_received(data)
        if self._not_body > HEAD_BYTES:
            self.refuse(URL_TOO_LONG if self._in_head and len(self.url) > URL_BYTES else HEAD_TOO_LARGE)
        elif self._in_head and self._late is None:
            self._late = self.loop.call_later(self.limits.client_seconds, self.refuse, b"408 Request Timeout")
        elif self._late is None and not self.receiving and not self._busy():  # empty lines, which begin no request
            self._late = self.loop.call_later(self.limits.client_seconds, self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._in_head, self._not_body, self._arrived = True, 0, self._data
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_is_here()
        if len(self.url) > URL_BYTES:
            self._refuse_head(URL_TOO_LONG)
        # Most heads came with so few bytes that nothing need be counted.
        if len(self.headers) > HEADER_FIELDS or (self._arrived > HEAD_BYTES and self._head_size() > HEAD_BYTES):
            self._refuse_head(HEAD_TOO_LARGE)
        assert self.parser is not None  # it is what calls this
        if (version := self.parser.get_http_version()) != "1.1":
            if version != "1.0":  # 0.9 has no head, and its answers none either
                self._refuse_head(b"505 HTTP Version Not Supported")
            self.expect_100_continue = False  # RFC 9110, section 10.1.1
        if len(self.pipeline) >= PIPELINED:
            self._refuse_head(TOO_MANY_AT_ONCE)
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body; the application counts these."""
        self._not_body = max(0, self._not_body - BYTES_AROUND_A_BYTE * len(body))
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn answers when the parser stops: here the reason why it stopped."""
        self.refuse(self._refusal or b"400 Bad Request")

    def _refuse_head(self, status: bytes) -> None:
        self._refusal = status
        raise Refused(status)  # the parser stops here, and send_400_response is called

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _head_is_here(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None
