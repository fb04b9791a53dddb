"""A connection that is closed only when its client can have read the last answer."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .connection import Connection

# Time for a client that is still sending to notice the answer; a second of it when the service stops.
LINGER_SECONDS = 5.0
LINGER_AT_THE_END_SECONDS = 1.0


class LingeringTransport:
    """A transport that uvicorn closes at once, but that stays open until the client can have read its answer."""

    def __init__(self, transport: Any, connection: "Connection") -> None:
        self._transport, self._connection = transport, connection
        self.lingering = False
        # Bound here, as a method of this class would cost time for each answer.
        self.write = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Tell whether no more answers are written."""
        return self.lingering or bool(self._transport.is_closing())

    def close(self) -> None:
        """Close when everything is sent, and when what the client still sends is read or its time is over."""
        if self.is_closing():
            return
        connection = self._connection
        linger = LINGER_AT_THE_END_SECONDS if connection.limits.draining else LINGER_SECONDS
        connection.end_within(linger if connection.receiving else connection.limits.client_seconds)
        if not connection.receiving:
            self._transport.close()
            return
        self.lingering = True
        try:
            self._transport.write_eof()
        except OSError:  # the client was faster
            self._transport.abort()
            return
        connection.flow.resume_reading()
