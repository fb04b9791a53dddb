"""How a connection ends: no answer is lost on the way, and no client holds one open for ever.

- A socket that is closed while bytes of the client are unread is reset by the kernel, and an answer on its way is
  lost. So the service says that nothing more will come, reads on for a while and only then closes.
- A client that does not read its answers keeps them in memory; it is given up after a while.
- A client may say that it sends nothing more and wait for its answer. From here that looks like one that has gone.
"""

import logging
import select
import socket
import struct
from asyncio import TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httptools
from starlette.types import ASGIApp, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .exchange import Exchange
from .head import new_id
from .last_answer import last_answer
from .lingering import LINGER_AT_THE_END_SECONDS, LingeringTransport
from .upgrade import parse_body

if TYPE_CHECKING:
    from .door import Door

log = logging.getLogger(__name__)
# Time for the first request of a connection that was opened just before the service stops.
FIRST_REQUEST_SECONDS = 1.0
# A client that has gone is noticed by writing to it; most answers come before that is worth it.
PROBE_SECONDS = 0.1
INTERIM_ANSWER = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class Limits:
    """``client_seconds``: time for a head, and for reading an answer. ``cut``: answers given up while draining.

    ``version`` is what answers say of the service's.
    """

    client_seconds: float
    version: str = "unknown"
    draining: bool = False
    cut: int = 0


class Connection(HttpToolsProtocol):
    """uvicorn's connection with an end that loses nothing; ``receiving`` while a request is not read to its end."""

    limits: Limits
    door: "Door | None" = None
    cycle: Any  # uvicorn's, or an Exchange
    receiving = False
    _spoke = _deaf = _keep_alive = _given_up = False
    _end: TimerHandle | None = None
    _stalled: TimerHandle | None = None
    _probe: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to serve a client."""
        super().connection_made(LingeringTransport(transport, self))  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        for timer in (self._end, self._stalled, self._probe):
            if timer:
                timer.cancel()
        super().connection_lost(exc)
        if self.cycle is not None and self.cycle.disconnected:
            _gone(self.cycle)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, or of one that nobody waits for any more."""
        self._spoke = True
        if not self._deaf and not self.transport.lingering:  # type: ignore[attr-defined]
            self._unset_keepalive_if_required()
            self._feed(data)
            # One that is not all there has to be waited for.
            if self.receiving and type(self.cycle) is Exchange and self.cycle.more_body:
                self.to_application(self.cycle)

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.send_400_response(str(error))
        except httptools.HttpParserUpgrade as upgrade:
            if not self._stays():
                return self.handle_websocket_upgrade() if self._should_upgrade() else self._no_tunnel()
            try:
                parse_body(self)
            except httptools.HttpParserError as error:
                return self.send_400_response(str(error))
            if rest := data[upgrade.args[0] :]:
                self._feed(rest)

    def _stays(self) -> bool:
        """Whether a request that asks for another protocol is answered in this one."""
        assert self.parser is not None
        return self.parser.get_method() != b"CONNECT" and not self._should_upgrade()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.receiving = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole. An answer that begins before the body is read ends the connection."""
        if self.door and (exchange := self.door.exchange(self)):
            self.cycle, self._keep_alive = exchange, True
            return
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._keep_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def on_message_complete(self) -> None:
        """The end of a request."""
        assert self.parser is not None
        if self.parser.should_upgrade() and self._stays():  # its body is still to come
            return
        self.receiving = False
        if self.cycle and not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        exchange = self.cycle if type(self.cycle) is Exchange and self.cycle.more_body else None
        super().on_message_complete()
        if exchange and not exchange.more_body:
            exchange.door.take(exchange)

    def to_application(self, exchange: Exchange, app: ASGIApp | None = None) -> None:
        """Let the application go on with a request, or another one."""
        cycle = exchange.as_cycle()
        if self.cycle is exchange:
            self.cycle = cycle
        self._start_asgi_task(cycle, app or self.app)  # type: ignore[arg-type]

    def answered(self, *, keep_alive: bool) -> None:
        """Go on after the answer to an exchange."""
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _no_tunnel(self) -> None:
        # CONNECT: what follows is for somebody else.
        self._last_is(self.cycle)
        self.receiving = True

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more: what it has asked is answered, then the connection is closed."""
        if self.receiving and not self.transport.is_closing():
            self._answer(b"400 Bad Request", new_id())
            return self._deaf
        if self.transport.is_closing() or not self._busy():
            return False
        self._last_is(self.cycle)
        if self.scope["http_version"] == "1.1":  # an older client knows no interim answer
            self._probe = self.loop.call_later(PROBE_SECONDS, self._look_for_client)
        return True

    def refuse(self, status: bytes) -> None:
        """Let ``status`` be the last answer of this connection; what was asked before is answered first."""
        if self.transport.is_closing() or self._deaf:
            return
        request_id = new_id()
        log.warning("closing a connection: %s", status.decode(), extra={"fields": {"request_id": request_id}})
        self._answer(status, request_id)

    def _answer(self, status: bytes, request_id: str) -> None:
        cycle, self.receiving = self.cycle, True
        if self._busy() and (self.pipeline or cycle.response_started or not cycle.more_body):
            self._deaf = True
            return self._last_is(cycle)
        if self._busy():
            cycle.disconnected = True
            cycle.message_event.set()
            _gone(cycle)
        headers, with_body = self.server_state.default_headers, self.parser.get_method() != b"HEAD"
        self.transport.write(last_answer(status, request_id, self.limits.version, headers, with_body=with_body))
        self.transport.close()

    def shutdown(self) -> None:
        """Close when the client has its answers; a request that is on its way is answered too."""
        if not self._spoke:
            self.loop.call_later(FIRST_REQUEST_SECONDS, self._close_idle)
        elif self.transport.lingering:  # type: ignore[attr-defined]
            self.end_within(LINGER_AT_THE_END_SECONDS)
        else:
            self._close_idle()

    def pause_writing(self) -> None:
        """The client reads slower than it is answered."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.client_seconds, self._give_up)

    def resume_writing(self) -> None:
        """The client has read."""
        if self._stalled:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    @property
    def cut_off(self) -> bool:
        """Whether the client would miss a part of an answer if the process ended now."""
        half = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        return half or self.transport.get_write_buffer_size() > 0

    def end_within(self, seconds: float) -> None:
        """Give the connection up when it is still open then."""
        if self._end:
            self._end.cancel()
        self._end = self.loop.call_later(seconds, self._abort)

    def _busy(self) -> bool:
        return self.cycle is not None and (bool(self.pipeline) or not self.cycle.response_complete)

    def _last_is(self, cycle: Any) -> None:
        cycle.keep_alive = self._keep_alive = False

    def _close_idle(self) -> None:
        if self._busy():
            self._last_is(self.cycle)
        elif not self.receiving and not self.transport.is_closing() and not _readable(self.transport):
            self.transport.close()

    def _give_up(self) -> None:
        log.warning("closing a connection: its client has not read the answer for %g s", self.limits.client_seconds)
        self._abort()

    def _abort(self) -> None:
        if self.cut_off and not self._given_up:
            self._given_up = True
            self.limits.cut += self.limits.draining
            # A reset: the client is not to take half an answer for a whole one, and the kernel need not keep the rest.
            _socket(self.transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _look_for_client(self, seconds: float = 0.0) -> None:
        if self.transport.is_closing() or self.pipeline or self.cycle.response_started:
            return
        if not seconds:
            self.transport.write(INTERIM_ANSWER)  # a host without this connection answers with a reset
        elif _socket(self.transport).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self.transport.abort()
        seconds = min(1.0, 2 * seconds or 0.02)
        self._probe = self.loop.call_later(seconds, self._look_for_client, seconds)


def is_whole(receive: Receive) -> bool:
    """Whether ``receive`` is of a connection that has the whole body, so that reading it never waits."""
    cycle = getattr(receive, "__self__", None)
    return type(cycle) is RequestResponseCycle and not cycle.more_body


def when_gone(receive: Receive, call: Callable[[], None] | None) -> bool:
    """Have ``call`` called when the client goes; False where ``receive`` is not of a connection and has to be asked.

    None: not any more; a connection that waits for its next request is to hold nothing of the last one.

    A task that asks costs more than all else that a small request needs.
    """
    cycle = getattr(receive, "__self__", None)
    if type(cycle) is not RequestResponseCycle or cycle.more_body:
        return False
    if cycle.disconnected and call:
        call()
        return True
    cycle.flow.resume_reading()  # of a connection that is not read nothing is heard
    cycle.when_gone = call  # type: ignore[attr-defined]
    return True


def _gone(cycle: RequestResponseCycle) -> None:
    if call := getattr(cycle, "when_gone", None):
        cycle.when_gone = None  # type: ignore[attr-defined]
        call()


def _readable(transport: Any) -> bool:
    poll = select.poll()
    poll.register(_socket(transport).fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _socket(transport: Any) -> Any:
    return transport.get_extra_info("socket")
