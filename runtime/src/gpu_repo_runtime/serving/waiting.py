"""Requests that wait for their answers: given up when they take too long, or when their client has gone."""

import asyncio
import time
from collections.abc import Callable
from copy import copy

from starlette.types import Receive

from .call import Call
from .errors import ClientGone, DeadlineExceeded, ServiceError

# One timer looks at all that wait: a timer, and a task that watches the connection, for each would cost as much as the
# rest of a request.
TICK_SECONDS = 0.005
# A call with inputs in the queue is watched after a tick, since the model need not compute what nobody waits for.
WATCH_IN_MODEL_SECONDS = 0.1


class Waiting:
    """Calls in the order of arrival; ``drop`` gives one up, ``seconds`` is the longest that one waits."""

    def __init__(self, drop: Callable[[Call, ServiceError], None], seconds: float) -> None:
        self._drop, self._seconds = drop, seconds
        self._calls: dict[Call, Receive | None] = {}
        self._watchers: dict[Call, asyncio.Task[None]] = {}
        self._ticking = False

    async def until_done(self, call: Call, receive: Receive | None = None) -> None:
        """Wait for a call; it is dropped if ``receive`` reports that its client has gone. Raises ServiceError."""
        self._calls[call] = receive
        if not self._ticking:
            self._ticking = True
            self._tick_later()
        try:
            await call.done
        except ServiceError as failed:
            # The call may stay in the model for long; an error that has the frames of this request would hold them.
            failed.__traceback__ = None
            raise copy(failed) from None
        except asyncio.CancelledError:  # the time to stop is over, or a timeout in an owner's route
            self._drop(call, ClientGone("the answer is not awaited any more"))
            raise
        finally:
            del self._calls[call]
            if self._watchers and (watcher := self._watchers.pop(call, None)):
                watcher.cancel()

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(min(TICK_SECONDS, self._seconds), self._tick)

    def _tick(self) -> None:
        self._ticking = bool(self._calls)
        if self._ticking:
            self._tick_later()
        now = time.perf_counter()
        for call, receive in self._calls.items():
            seconds = now - call.queued_at
            if seconds < TICK_SECONDS:
                break
            if seconds > self._seconds:
                self._drop(call, DeadlineExceeded(f"no answer within {self._seconds:g} s"))
            elif receive and call not in self._watchers and (call.waiting or seconds > WATCH_IN_MODEL_SECONDS):
                self._watchers[call] = asyncio.create_task(self._watch(call, receive))

    async def _watch(self, call: Call, receive: Receive) -> None:
        # Once: a middleware that has read the body may return it again and again without waiting.
        if (await receive())["type"] == "http.disconnect":
            self._drop(call, ClientGone("the client closed the connection"))
