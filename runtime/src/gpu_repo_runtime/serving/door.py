"""The short way of a plain request for predictions: from its connection to the batcher and back.

The layers of an application take most of a small request's time. Where nothing but FastAPI's and the service's own
code stands between a connection and ``Direct``, a request that is all there, and has nothing out of the ordinary in
its head, is read and answered here, without a task. Everything else goes through the application: other requests,
what is refused, and whatever ends with an error.
"""

import asyncio
import time
from asyncio import TimerHandle
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from .body import is_json
from .errors import ClientGone, DeadlineExceeded, NotReady, ServiceError
from .exchange import Exchange, Path
from .head import new_id, usable_host
from .ledger import Answered, Ledger
from .middleware import RequestMiddleware, usable_id
from .predictions import Direct, in_the_words_of
from .service import Service
from .way import Way

if TYPE_CHECKING:
    from .connection import Connection

# What comes with the head; a larger body has time for the long way.
MAX_BODY_BYTES = 65_536
# Headers with which a request is more than its body.
NOT_PLAIN = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})


class Door:
    """Takes requests from connections; ``exchange`` says which ones."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app, self._service, self._way = app, service, Way(app)
        self._read, self._json = service.request.read, service.json
        self._ledger = Ledger(service)
        self._failing = RequestMiddleware(_raise, service)
        self._most = min(MAX_BODY_BYTES, service.settings.body_limit)
        self._paths = _paths(self._way.end)
        self._arrived: list[Exchange] = []
        self._answered: list[Answered] = []
        self._due: dict[Exchange, float] = {}
        self._timer: TimerHandle | None = None
        self._default_headers: Sequence[tuple[bytes, bytes]] = ()
        self._head, self._last_head = b"", f"x-model-version: {service.settings.app_version}\r\n".encode()

    def exchange(self, connection: "Connection") -> Exchange | None:
        """Return what a connection uses for the request whose head it has read; None: its application's cycle."""
        path = self._paths.get(connection.url)
        if path is None or connection.app is not self._app or connection.access_log or connection.flow.write_paused:
            return None
        parser, before = connection.parser, connection.cycle
        assert parser is not None
        if parser.get_method() != b"POST" or parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        if before is not None and not before.response_complete:
            return None
        head = dict(connection.headers)
        if len(head) != len(connection.headers) or not NOT_PLAIN.isdisjoint(head):
            return None
        if not usable_host(head.get(b"host", b" ")) or not 0 < int(head.get(b"content-length", 0)) <= self._most:
            return None
        media_type = head.get(b"content-type", b"")
        if not is_json(media_type) and not is_json(media_type.partition(b";")[0].strip().lower()):
            return None
        given = head.get(b"x-request-id")
        return Exchange(self, connection, path, given.decode() if given and usable_id(given) else new_id())

    def take(self, exchange: Exchange) -> None:
        """Take a request that is all there: with those that come at the same time, it is submitted at once."""
        exchange.started = time.perf_counter()
        exchange.connection.tasks.add(exchange)  # type: ignore[arg-type]  # what uvicorn waits for at the end
        if not self._arrived:
            exchange.connection.loop.call_soon(self._submit)
        self._arrived.append(exchange)

    def _submit(self) -> None:
        arrived, self._arrived = self._arrived, []
        is_open, loop = self._way.is_open(), asyncio.get_running_loop()
        due = loop.time() + self._service.settings.request_seconds
        for exchange in arrived:
            if not is_open or exchange.disconnected or not self._accepts(exchange):
                exchange.context.run(self.leave(exchange).to_application, exchange)
            elif exchange.call is not None:
                self._due[exchange] = due
                self._timer = self._timer or loop.call_at(due, self._expire)

    def _accepts(self, exchange: Exchange) -> bool:
        """Whether the request is answered here, be it with an error; the application says what is wrong with others."""
        try:
            asked = exchange.context.run(self._read, exchange.body)
        except BaseException:  # a validator of the owner may raise anything
            return False
        exchange.name, exchange.body = asked.name, b""
        try:
            client = self._service.client_of(exchange.scope)
            submit = self._service.submit
            exchange.call = exchange.context.run(submit, asked.inputs, asked.parameters, client, exchange)
        except BaseException as error:
            self.fail(exchange, error)
        else:
            exchange.when_gone = lambda: self._drop(exchange, ClientGone("the client hung up"))
        return True

    def answer(self, exchange: Exchange) -> None:
        """Answer a request whose call is done."""
        call = exchange.call
        assert call is not None
        try:
            content = b'{"predictions":%b}' % exchange.context.run(self._json, call)
        except BaseException as error:  # a serializer of the owner may raise anything
            return self.fail(exchange, error)
        connection = self.leave(exchange)
        last = b"\r\n"
        if self._service.state == "draining" or not exchange.keep_alive:
            exchange.keep_alive, last = False, b"connection: close\r\n\r\n"
        head, id_ = self._head_with(connection.server_state.default_headers), exchange.request_id
        answer = (head, b"%d\r\nx-request-id: " % len(content), id_.encode(), b"\r\n", self._last_head, last, content)
        if not exchange.disconnected and not connection.transport.is_closing():
            connection.transport.write(b"".join(answer))
        exchange.response_started = exchange.response_complete = True
        connection.answered(keep_alive=exchange.keep_alive)
        if not self._answered:
            connection.loop.call_soon(self._enter)
        queue_ms = round((call.started_at - call.queued_at) * 1e3, 2)
        about = id_, len(call.sizes), call.batch_size, queue_ms, time.perf_counter() - exchange.started
        self._answered.append(Answered(exchange.path.route.path, exchange.path.name, *about))

    def _enter(self) -> None:
        """Count and log after the answers are on their way."""
        answered, self._answered = self._answered, []
        self._ledger.enter_all(answered)

    def fail(self, exchange: Exchange, error: BaseException) -> None:
        """Have the application say that a request ends with an error."""
        connection = self.leave(exchange)
        if isinstance(error, ServiceError):
            try:
                error = in_the_words_of(exchange.name, error)
                error.__traceback__ = None  # it would hold the inputs as long as its connection is open
            except Exception as other:  # a model may raise a ServiceError of its own making
                error = other
        about = {"route": exchange.path.route, "error": error, "started": exchange.started}
        exchange.scope = exchange.scope | about
        exchange.context.run(connection.to_application, exchange, self._failing)

    def stop(self, exchange: Exchange) -> None:
        """Give a request up: the time to stop is over."""
        if exchange.call and not exchange.response_complete:
            self._service.unfinished += 1
            self._drop(exchange, NotReady("the service stopped before the answer was there", retry_after=1))

    def _drop(self, exchange: Exchange, error: ServiceError) -> None:
        if exchange.call:
            self._service.batcher.drop(exchange.call, error)

    def leave(self, exchange: Exchange) -> "Connection":
        """Let nothing of the request stay here."""
        connection = exchange.connection
        self._due.pop(exchange, None)
        connection.tasks.discard(exchange)
        exchange.call = exchange.when_gone = None
        return connection

    def _expire(self) -> None:
        self._timer, loop = None, asyncio.get_running_loop()
        late = f"no answer within {self._service.settings.request_seconds:g} s"
        while self._due:
            exchange, due = next(iter(self._due.items()))
            if due > loop.time():
                self._timer = loop.call_at(due, self._expire)
                break
            del self._due[exchange]
            self._drop(exchange, DeadlineExceeded(late))

    def _head_with(self, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        if default_headers is not self._default_headers:  # uvicorn makes new ones every second
            lines = b"".join(b"%b: %b\r\n" % pair for pair in default_headers)
            self._default_headers = default_headers
            self._head = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: " % lines
        return self._head


def _paths(direct: Direct | None) -> dict[bytes, Path]:
    if direct is None:
        return {}
    routes = {name: route for name, (_, route) in direct.answers.items()}
    return {name.encode(): Path(name, route) for name, route in routes.items() if name.isascii() and "%" not in name}


async def _raise(scope: Scope, receive: Receive, send: Send) -> None:
    raise scope.pop("error")
