"""A plain request for predictions on its way through the door, in the place of uvicorn's cycle."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from .call import Answer, Call
    from .connection import Connection
    from .door import Door


log = logging.getLogger(__name__)


class Path(NamedTuple):
    """A path of predictions, and the route that it has in the application."""

    name: str
    route: Any


class Exchange:
    """What a connection asks of its cycle, and what the batcher asks of a future.

    ``name`` is what the request calls its inputs.
    """

    disconnected = response_started = response_complete = False
    keep_alive = more_body = True
    body: Any = b""
    message_event = asyncio.Event()  # nobody waits for it
    when_gone: Callable[[], None] | None = None
    call: "Call | None" = None
    name, started = "", 0.0

    def __init__(self, door: "Door", connection: "Connection", path: Path, request_id: str) -> None:
        self.door, self.connection, self.path, self.request_id = door, connection, path, request_id
        self.scope: Any = connection.scope
        self.context = copy_context()  # what owners keep there is a request's own, as it is in a task

    def done(self) -> bool:
        """Whether it is answered, or the application looks after it."""
        return self.response_complete

    def set_result(self, _: "list[Answer]") -> None:
        """Answer; the answers stand in the call."""
        self._end(self.door.answer, self)

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error."""
        self._end(self.door.fail, self, error)

    def _end(self, how: Callable[..., None], *arguments: object) -> None:
        try:
            how(*arguments)
        except BaseException:  # those who have their answers from the same batch are not to suffer
            log.exception("internal error")
            self.door.leave(self).transport.abort()

    def as_cycle(self) -> RequestResponseCycle:
        """Return what uvicorn would have made of the request; it is the application's from now on."""
        self.response_complete, own = True, self.connection
        path = {"path": self.path.name, "raw_path": self.path.name.encode(), "query_string": b""}
        cycle = RequestResponseCycle(
            scope=self.scope | path | {"method": "POST"},
            transport=own.transport,
            flow=own.flow,
            logger=own.logger,
            access_logger=own.access_logger,
            access_log=own.access_log,
            default_headers=own.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=self.keep_alive and not self.more_body,
            on_response=own.on_response_complete,
        )
        cycle.body, cycle.more_body, cycle.disconnected = bytearray(self.body), self.more_body, self.disconnected
        if self.body or self.disconnected or not self.more_body:
            cycle.message_event.set()
        return cycle

    def cancel(self, msg: object = None) -> None:
        """Take in that the time to stop is over, as uvicorn tells its tasks while it walks through them."""
        self.connection.loop.call_soon(self.door.stop, self)
