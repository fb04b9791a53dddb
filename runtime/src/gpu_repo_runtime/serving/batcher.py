"""Adaptive micro-batching in front of one model on one device.

One thread owns the model. When the device is free it takes what is waiting, up to ``limit`` items. Nothing waits for a
batch to fill: a lone request goes at once, and under load a batch is what arrived while the device was busy, or what
the event loop found together. The thread fetches its work by itself, so the device never waits for the event loop,
which is busy with writing answers just when a batch ends.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from .call import Answer, Batch, Call, Done, Owner, Standing
from .errors import ClientGone, DeviceLost, NotReady, QueueFull, ServiceError
from .heldback import HeldBack
from .limits import Limit
from .trial import Trial
from .waiting import Waiting

log = logging.getLogger(__name__)


class Batcher:
    """A bounded queue of items and the thread that answers them; ``busy_since`` is when the model was called."""

    def __init__(
        self, owner: Owner, *, limit: int, max_queue: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.lost: DeviceLost | None = None
        self.busy_since: float | None = None
        self.memory = Limit(limit)
        self.queue = Waiting(max_queue)
        self.held = HeldBack()
        self._owner, self._clock = owner, clock
        self._trial = Trial(owner, self, self.memory, clock)
        self._seconds_per_item = 0.0
        self._waking = False
        self._failed: list[tuple[Call, ServiceError]] = []
        self._broke, self._search_seconds = False, 0.0

    @property
    def limit(self) -> int:
        """The largest batch now."""
        return self.memory.now

    @limit.setter
    def limit(self, most: int) -> None:
        self.memory.now = self.memory.most = most

    def start(self, prepare: Callable[[], bool] = lambda: True) -> None:
        """Start the thread; it runs ``prepare`` first and ends when that says False. To be called in the event loop."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(prepare,), name="model", daemon=True).start()

    def stop(self) -> None:
        """Accept nothing more; the thread ends when the queue is empty."""
        self.held.close()
        self.queue.close()

    def submit(
        self,
        items: Sequence[Any],
        *,
        sizes: Sequence[int] | None = None,
        group: Hashable = None,
        client: Hashable = None,
        done: Done | None = None,
    ) -> Call:
        """Queue the items; ``call.done`` gives the answers in order. Raises QueueFull, DeviceLost or NotReady.

        It is ``done``, or else a future.
        ``sizes`` are the lengths of texts where they are not given. Items of different ``group`` never share a batch.
        Each ``client`` has its turn, whatever others have waiting.
        """
        if self.lost:
            raise DeviceLost(self.lost.detail)
        if self.queue.closed:
            raise NotReady("the service is stopping", retry_after=1)
        if sizes is None:
            sizes = [len(item) if isinstance(item, str) else 1 for item in items]
        count = len(items)
        answers: list[Answer] = [None] * count
        done = done or self._loop.create_future()
        if not count:
            done.set_result([])
        call = Call(items, sizes, group, client, answers, done, self._clock(), count, count)
        if not count:
            return call
        call.standing = self._trial.suspicion.of(call)
        try:
            self.queue.add(call)
        except QueueFull as full:
            full.retry_after = max(1, ceil(self.queue.depth * self._seconds_per_item))
            if not (leaving := self.queue.in_the_way_of(call)):
                raise
            for other in leaving:
                self.drop(other, QueueFull("others have less than half of the places", retry_after=full.retry_after))
            self.queue.add(call)
        if not self._waking:  # once for all that come together: for each one the interpreter would change hands
            self._waking = True
            self._loop.call_soon(self._wake)
        return call

    def _wake(self) -> None:
        self._waking = False
        self.queue.wake()

    def drop(self, call: Call, error: ServiceError) -> None:
        """Give the call up: ``call.done`` raises ``error``; what of it is not in the model is freed at once."""
        if call.gone or not call.left:
            return self.held.release(call)
        self.queue.remove(call, hung_up=isinstance(error, ClientGone))
        if not call.done.done():
            call.done.set_exception(error)

    def _work(self, prepare: Callable[[], bool]) -> None:
        if prepare():
            more = True
            while more and self.lost is None:
                try:
                    more = self._turn()
                except BaseException:  # of ours: whoever waits is told, and the next ones are served
                    log.exception("internal error in the batcher")
                    self._tell(self._give_up)

    def _turn(self) -> bool:
        """Run one batch; nothing of it is held after that."""
        batch, searched = self.queue.take(self.limit, self._trial.suspicion)
        if batch:
            self._broke = searched
            started, standing = self._clock(), Standing.ALONE if searched else batch[0][0].standing
            (self._trial.search if searched else self._trial.run)(batch)
            seconds = self._clock() - started
            self.queue.pay(standing, seconds, len(batch))
            if self._broke:
                self._search_seconds += seconds
                self._tell_failed()
            elif self.held:
                self._tell(self.held.pay, seconds)
        return bool(batch)

    def _tell_failed(self) -> None:
        """Tell who has failed, or have it told later, where it is not known from before and others fail too.

        Calls of the owner's own routes, which have no client, may be what others wait for.
        """
        failed, self._failed = self._failed, []
        for call, error in failed:
            known = call.client is None or call.standing is Standing.SHARED
            if known or not self._trial.suspicion.alarmed():
                self._tell(self.drop, call, error)
            else:
                self._tell(self._hold, call, error, self._search_seconds / len(failed))
        if failed:
            self._search_seconds = 0.0

    def _hold(self, call: Call, error: ServiceError, cost: float) -> None:
        if not call.gone and call.left:
            self.queue.remove(call)
            self.held.hold(call, error, cost, len(self.queue.calls))

    def enter(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """See Desk."""
        self.busy_since = self._clock()
        return self.queue.enter([] if self.lost else batch)

    def leave(self) -> None:
        """See Desk."""
        self.busy_since, self._broke = None, True
        self.queue.leave(answered=False)

    def answer(self, batch: Batch, answers: Sequence[Answer], started: float, seconds: float) -> None:
        """See Desk."""
        self.busy_since = None
        self.queue.leave(answered=True)
        self._seconds_per_item += 0.2 * (seconds / len(batch) - self._seconds_per_item)
        self._tell(self._deliver, batch, answers, started)
        self.queue.ordering.learn(batch, seconds)
        self._owner.batch_done(batch, seconds)

    def fail(self, call: Call, error: ServiceError) -> None:
        """See Desk."""
        self._failed.append((call, error))

    def again(self, batch: Batch) -> None:
        """See Desk."""
        for call, _ in batch:
            if len(call.sizes) == 1:  # of others something may wait where it stood before
                call.standing = self._trial.suspicion.of(call)
        self.queue.put_back(batch)

    def search(self, batch: Batch, *, first: bool) -> None:
        """See Desk."""
        self.queue.search(batch, first=first)

    def lose(self, error: DeviceLost) -> None:
        """See Desk."""
        self.lost = error
        self._tell(self._lose, error)

    def _give_up(self) -> None:
        for call in list(self.queue.calls):
            self.drop(call, ServiceError("the log has the traceback"))

    def _lose(self, error: DeviceLost) -> None:
        self.held.close()
        for call in list(self.queue.calls):
            self.drop(call, DeviceLost(error.detail))
        self._owner.device_lost(error)

    def _deliver(self, batch: Batch, answers: Sequence[Answer], started: float) -> None:
        for (call, index), answer in zip(batch, answers, strict=True):
            if isinstance(answer, ServiceError):
                self.drop(call, answer)
            if call.gone:
                continue
            call.answers[index] = answer
            call.started_at, call.batch_size = call.started_at or started, len(batch)
            call.left -= 1
            if not call.left:
                self.queue.forget(call)
                if not call.done.done():
                    call.done.set_result(call.answers)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(function, *arguments)
