"""Connections of clients that ask for HTTP/2 with ``Upgrade: h2c``, as Java's HttpClient does.

They are answered in HTTP/1.1. httptools, which is three times as fast, drops the body of such a request; h11 does not.
So h11 parses these connections and httptools the others.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class ChooseParser(asyncio.Protocol):
    """Looks at the first bytes of a connection, then leaves it to the protocol of uvicorn that parses it."""

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._usual = HttpToolsProtocol(**arguments)

    def connection_made(self, transport: Any) -> None:
        """A connection is open."""
        self._transport = transport
        self._usual.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """The first bytes are here: usually the whole head."""
        protocol: Any = self._usual
        if b"h2c" in data.partition(b"\r\n\r\n")[0].lower():
            protocol.connection_lost(ConnectionError("another parser takes over"))
            protocol = H11Protocol(**self._arguments)
            protocol.connection_made(self._transport)
        self._transport.set_protocol(protocol)
        protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed before a request came."""
        self._usual.connection_lost(exc)
