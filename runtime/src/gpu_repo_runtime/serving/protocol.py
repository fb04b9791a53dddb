"""uvicorn's HTTP protocol with limits on what comes before the application is asked.

uvicorn waits without end for the first byte and for the end of a request's head, and keeps a head of any size. The
limit counts all that is not body: the head, and what stands around and behind a chunked body.
"""

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 65_536
# The smallest chunk is one byte of body in six bytes.
BYTES_AROUND_A_BYTE = 8


def http_protocol(head_seconds: float) -> type[HttpToolsProtocol]:
    """A protocol that closes connections which are silent, or take longer than ``head_seconds`` over a head."""
    return type("Protocol", (LimitedProtocol,), {"head_seconds": head_seconds})


class LimitedProtocol(HttpToolsProtocol):
    """One connection; 408 or 431 is the last answer of one that does not keep the limits."""

    head_seconds: float
    _in_head, _not_body = False, 0
    _late: TimerHandle | None = None

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
        self._not_body += len(data)
        super().data_received(data)
        if self._not_body > HEAD_BYTES:
            self._end(b"431 Request Header Fields Too Large")
        elif self._in_head and self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self._end, b"408 Request Timeout")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._in_head, self._not_body = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._head_is_here()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body; the application counts these."""
        self._not_body = max(0, self._not_body - BYTES_AROUND_A_BYTE * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._not_body = 0
        super().on_message_complete()

    def _head_is_here(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None

    def _end(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        self.logger.warning("closing a connection: %s", status.decode())
        if self.cycle is None or self.cycle.response_complete:  # else the bytes would fall into another answer
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()
