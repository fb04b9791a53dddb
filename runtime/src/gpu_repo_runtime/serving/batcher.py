"""Adaptive batching in front of one model on one device.

One thread owns the model. When the device is free it takes the inputs that wait, up to ``limit``. A lone request goes
at once, and under load a batch is what arrived while the device was busy, or comes back at once from those who were
answered. If a batch fails, halving finds the input that makes the model fail; if memory runs out, the batch is answered
in parts.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from .batch_planning import BatchLimit, Cost, fitting
from .batch_queue import Batch, BatchQueue, Call, sizes_of
from .errors import DeviceLost, OutOfMemory, ServiceError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchEvents:
    """What the batcher calls. All but ``device_lost``, which ends the service, runs in the model's thread.

    ``classify`` returns what an error of the model means: DeviceLost ends all, OutOfMemory needs a smaller batch. Its
    second argument is the input's place in its request if it was alone in the batch. ``release`` gives cached device
    memory back. ``batch_done`` records a batch that was answered, and its seconds.
    """

    classify: Callable[[BaseException, int | None], ServiceError]
    release: Callable[[], None]
    batch_done: Callable[[Batch, float], None]
    device_lost: Callable[[DeviceLost], None]


class Batcher:
    """A bounded queue of inputs and the thread that answers them.

    ``calls`` are not answered yet, in the order of arrival; ``busy_since`` is when the model was called.
    """

    def __init__(
        self, events: BatchEvents, *, limit: int, max_queue: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.calls: dict[Call, None] = {}
        self.lost: DeviceLost | None = None
        self.busy_since: float | None = None
        self.memory, self._cost = BatchLimit(limit), Cost()
        self.queue = BatchQueue(self.memory, self._cost, max_queue, clock)
        self._events, self._clock = events, clock
        self._largest_answered, self._waking = 0, False
        # Of the batch that was taken last: what ran out of memory, and the padded size of a part that was answered.
        self._shortage: Batch = []
        self._fitted = 0
        self._too_large: list[tuple[Call, int, ServiceError]] = []

    def start(self, prepare: Callable[[], bool] = lambda: True) -> None:
        """Start the thread, which first runs ``prepare`` and ends if that is false. Call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(prepare,), name="model", daemon=True).start()

    def stop(self) -> None:
        """Accept nothing more; the thread ends when all is answered."""
        self.queue.wake(close=True)

    def submit(
        self,
        items: Sequence[Any],
        predict: Callable[[list[Any]], Sequence[Any]],
        *,
        sizes: Sequence[int] | None = None,
        group: Hashable = None,
        client: Hashable = None,
    ) -> Call:
        """Queue items; the future ``call.done`` gives the answers in order. Raises ServiceError: queue_full, not_ready,
        device_lost.

        ``sizes`` are by default the lengths of texts. See Call.
        """
        if self.lost:
            raise DeviceLost(self.lost.detail)
        if self.queue.closed:
            raise ServiceError("the service is stopping", "not_ready", retry_after=1)
        if sizes is None:
            sizes = [len(item) if isinstance(item, str) else 1 for item in items]
        count, done = len(items), self._loop.create_future()
        call = Call(items, predict, sizes, group, client, [None] * count, done, self._clock(), count, count)
        if not count:
            done.set_result([])
            return call
        if not self.queue.add(call):
            waiting, seconds = self.queue.count, ceil(self.queue.count / self.memory.now * self._cost.highest)
            detail = f"{waiting} of {self.queue.most} places in the queue are taken (MAX_QUEUE)"
            raise ServiceError(detail, "queue_full", retry_after=max(1, seconds))
        self.calls[call] = None
        if not self._waking:  # once for all that come together: each time the interpreter changes threads
            self._waking = True
            self._loop.call_soon(self._wake)
        return call

    def _wake(self) -> None:
        self._waking = False
        self.queue.wake()

    def drop(self, call: Call, error: ServiceError) -> None:
        """Give a call up: ``call.done`` raises ``error``, and its inputs that are not in the model are freed."""
        if call not in self.calls:
            return
        del self.calls[call]
        self.queue.remove(call)
        if not call.done.done():
            call.done.set_exception(error)

    def _work(self, prepare: Callable[[], bool]) -> None:
        more = prepare()
        while more and self.lost is None:
            try:
                more = self._turn()
            except BaseException:  # a fault of the batcher: answer the calls that wait, and serve the next ones
                log.exception("internal error in the batcher")
                self._in_loop(self._end_all, ServiceError("the log has the traceback"))

    def _turn(self) -> bool:
        batch, started = self.queue.take(), self._clock()
        if batch:
            self._answer(batch)
        if self._shortage and not self._too_large:
            self.memory.short(len(self._shortage), max(1, *sizes_of(self._shortage)), self._fitted)
        for call, index, error in self._too_large:
            self._judge(call, index, error)
        self.queue.charge(self._clock() - started)
        self._shortage, self._fitted, self._too_large = [], 0, []  # an idle batcher holds no inputs
        return bool(batch)

    def _answer(self, batch: Batch) -> bool:
        """Answer a batch, in parts if it fails; return whether it was answered as a whole."""
        error = self._call(batch)
        if error is None:
            if self._shortage:
                self._fitted = max(self._fitted, len(batch) * max(1, *sizes_of(batch)))
        elif isinstance(error, OutOfMemory):
            self._in_parts(batch, error)
        elif len(batch) == 1:
            self._give_up(batch[0][0], error)
        elif not self.lost:
            self._search(batch)
        return error is None

    def _search(self, batch: Batch) -> None:
        """Halve a batch that fails. If the first half is answered, the fault is in the second, which is not called."""
        half = len(batch) // 2
        if self._answer(batch[:half]) and len(batch) - half > 1:
            self._search(batch[half:])
        elif not self.lost:
            self._answer(batch[half:])

    def _in_parts(self, batch: Batch, error: ServiceError) -> None:
        """Answer a batch in parts that fit into memory."""
        if len(batch) == 1:
            return self._too_large.append((*batch[0], error))
        if not self._shortage:
            self._shortage, self._fitted = batch, 0
        batch = sorted(batch, key=lambda entry: entry[0].sizes[entry[1]])
        self._answer(batch[: len(batch) // 2])
        rest = batch[len(batch) // 2 :]
        while rest:
            count = fitting(sizes_of(rest), self._fitted) if self._fitted else len(rest)
            self._answer(rest[:count])
            rest = rest[count:]

    def _judge(self, call: Call, index: int, error: ServiceError) -> None:
        """Distinguish an input that is too large from a device on which nothing fits now."""
        again = self._call([(call, index)]) if self._fitted else error
        if again is None or call.gone:
            return
        fitted_before = call.sizes[index] <= self._largest_answered
        if isinstance(again, OutOfMemory) and (self._fitted or not fitted_before):
            reason = "the model ran out of memory with this input alone"
            detail = f"instances.{index} does not fit into memory; a smaller one may"
            again = ServiceError.at(index, reason, "input_too_large", detail)
        self._give_up(call, again)

    def _give_up(self, call: Call, error: ServiceError) -> None:
        if not self.lost:
            self.queue.quarantine(call.client)
            self._in_loop(self.drop, call, error)

    def _call(self, batch: Batch) -> ServiceError | None:
        """Call the model with a batch; return the error if it fails."""
        batch, items = self.queue.begin(batch)
        if not batch:
            return None
        started, error = self._clock(), None
        answers: Sequence[Any] = ()
        self.busy_since = started
        try:
            answers = batch[0][0].predict(items)
            if len(answers) != len(items):
                raise ValueError(f"predict returned {len(answers)} answers for {len(items)} inputs")
        except BaseException as caught:
            error = self._events.classify(caught, batch[0][1] if len(batch) == 1 else None)
        self.busy_since = None  # from here on no traceback holds the memory of a failed batch
        if error is None:
            self._answered(batch, answers, started)
            return None
        self.queue.failed(batch)
        if isinstance(error, DeviceLost):
            self.lost = error
            self._in_loop(self._end_all, error)
            self._in_loop(self._events.device_lost, error)
        elif isinstance(error, OutOfMemory):
            self._events.release()
        return error

    def _answered(self, batch: Batch, answers: Sequence[Any], started: float) -> None:
        seconds = self._clock() - started
        self.queue.answered(len(batch))
        self._in_loop(self._deliver, batch, answers, started)
        largest = max(sizes_of(batch))
        self._largest_answered = max(self._largest_answered, largest)
        self._cost.learn(len(batch), largest, seconds)
        self.memory.fitted(len(batch), largest)
        self._events.batch_done(batch, seconds)

    def _deliver(self, batch: Batch, answers: Sequence[Any], started: float) -> None:
        for (call, index), answer in zip(batch, answers, strict=True):
            if call.gone:
                continue
            call.answers[index] = answer
            call.started_at, call.batch_size = call.started_at or started, len(batch)
            call.left -= 1
            if not call.left:
                del self.calls[call]
                if not call.done.done():
                    call.done.set_result(call.answers)

    def _end_all(self, error: ServiceError) -> None:
        for call in list(self.calls):
            self.drop(call, type(error)(error.detail))

    def _in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)
