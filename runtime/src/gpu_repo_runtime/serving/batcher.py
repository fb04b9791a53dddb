"""Adaptive micro-batching in front of one model on one device.

One thread owns the model. When the device is free it takes what is waiting, up to ``limit`` texts, of many those that
are about as long as each other. Nothing waits for a batch to fill: a lone request goes at once, and under load a batch
is what arrived while the device was busy. The thread fetches its work by itself, so the device never waits for the
event loop, which is busy with writing answers just when a batch ends.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from .call import Answer, Batch, Call, Owner
from .errors import DeviceLost, NotReady, OutOfMemory, QueueFull, ServiceError
from .ordering import Ordering


class Batcher:
    """A bounded queue of texts and the thread that answers them; ``limit`` is the largest batch."""

    def __init__(self, owner: Owner, *, limit: int, max_queue: int) -> None:
        self.limit, self.max_queue = limit, max_queue
        self.waiting = 0
        self.lost: DeviceLost | None = None
        self.busy_since: float | None = None
        self._owner = owner
        self._queue: deque[tuple[Call, int]] = deque()
        self._ordering = Ordering()
        self._wake = threading.Condition(threading.Lock())
        self._closed = False
        self._seconds_per_text = 0.0

    def start(self, prepare: Callable[[], bool] = lambda: True) -> None:
        """Start the thread; it runs ``prepare`` first and ends when that says False. To be called in the event loop."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(prepare,), name="model", daemon=True).start()

    def stop(self) -> None:
        """Accept nothing more; the thread ends when the queue is empty."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def submit(
        self,
        items: Sequence[Any],
        *,
        sizes: Sequence[int] | None = None,
        group: Hashable = None,
        client: Hashable = None,
    ) -> Call:
        """Queue the items; ``call.done`` gives the answers in order. Raises QueueFull, DeviceLost or NotReady.

        ``sizes`` are the lengths of texts where they are not given. Items of different ``group`` never share a batch.
        """
        count = len(items)
        sizes = [len(item) if isinstance(item, str) else 1 for item in items] if sizes is None else sizes
        with self._wake:
            if self.lost:
                raise DeviceLost(self.lost.detail)
            if self._closed:
                raise NotReady("the service is stopping", retry_after=1)
            if self.waiting + count > self.max_queue:
                seconds = max(1, ceil(self.waiting * self._seconds_per_text))
                raise QueueFull(f"{self.waiting} of {self.max_queue} places are taken", retry_after=seconds)
            answers: list[Answer] = [None] * count
            done: asyncio.Future[list[Answer]] = self._loop.create_future()
            call = Call(items, sizes, group, client, answers, done, time.perf_counter(), count, count)
            self.waiting += count
            self._queue.extend((call, index) for index in range(count))
            self._wake.notify()
        return call

    def drop(self, call: Call, error: ServiceError) -> None:
        """Give the call up: ``call.done`` raises ``error``, and what still waits of it is never computed."""
        with self._wake:
            self.waiting -= call.waiting
            call.waiting = 0
        if not call.done.done():
            call.done.set_exception(error)

    def _work(self, prepare: Callable[[], bool]) -> None:
        if prepare():
            while self.lost is None and (batch := self._take()):
                self._run(batch)

    def _take(self) -> Batch:
        batch: Batch = []
        with self._wake:
            while not batch:
                self._wake.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return batch
                size = self._ordering.next_size(self._queue, self.limit)
                while self._queue and len(batch) < size:
                    call, index = self._queue[0]
                    if batch and call.waiting and call.group != batch[0][0].group:
                        break
                    self._queue.popleft()
                    if call.waiting:  # else it was dropped
                        call.waiting -= 1
                        self.waiting -= 1
                        batch.append((call, index))
        return batch

    def _run(self, batch: Batch) -> None:
        self.busy_since = started = time.perf_counter()
        error, size = None, len(batch)
        try:
            answers = self._owner.predict([call.items[index] for call, index in batch], batch[0][0].group)
            if len(answers) != size:
                raise ValueError(f"predict returned {len(answers)} answers for {size} inputs")
        except BaseException as caught:
            error = self._owner.judge(caught, batch[0][1] if size == 1 else None)
        # From here on no traceback holds the failed batch's memory.
        self.busy_since, seconds = None, time.perf_counter() - started
        if error is None:
            self._seconds_per_text += 0.2 * (seconds / size - self._seconds_per_text)
            self._tell(self._deliver, batch, answers, started)
            self._ordering.learn(batch, seconds)
            return self._owner.batch_done(batch, seconds)
        if isinstance(error, DeviceLost):
            return self._lose(batch, error)
        if isinstance(error, OutOfMemory):
            self.limit = max(1, min(self.limit, size // 2))
            self._owner.release()
        if size == 1:
            return self._tell(self.drop, batch[0][0], error)
        # Halving finds the size that fits as well as the one text that spoils its neighbours.
        for half in (batch[: size // 2], batch[size // 2 :]):
            self._run(half) if self.lost is None else self._lose(half, self.lost)

    def _lose(self, batch: Batch, error: DeviceLost) -> None:
        with self._wake:
            self.lost, first = error, self.lost is None
            batch += self._queue
            self._queue.clear()
        for call, _ in batch:
            self._tell(self.drop, call, error)
        if first:
            self._tell(self._owner.device_lost, error)

    def _deliver(self, batch: Batch, answers: Sequence[Answer], started: float) -> None:
        for (call, index), answer in zip(batch, answers, strict=True):
            if isinstance(answer, ServiceError):
                self.drop(call, answer)
                continue
            call.answers[index] = answer
            call.started_at, call.batch_size = call.started_at or started, len(batch)
            call.left -= 1
            if not call.left and not call.done.done():
                call.done.set_result(call.answers)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(function, *arguments)
