"""Adaptive batching in front of one model on one device.

One thread owns the model. When the device is free it takes the inputs that wait, up to ``limit``. It never waits for a
batch to fill: a lone request goes at once, and under load a batch is what arrived while the device was busy. If a batch
fails, halving finds the input that makes the model fail; if memory runs out, the batch is answered in parts.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Protocol

from .batch_limit import BatchLimit, by_size, is_uneven
from .batch_planning import Cost
from .batch_queue import BatchQueue
from .call import Batch, Call
from .errors import DeviceLost, NotReady, OutOfMemory, PredictionFailed, QueueFull, ServiceError

log = logging.getLogger(__name__)
# How much the last batch counts in the average time of an input.
SMOOTHING = 0.2


class BatchHandler(Protocol):
    """What the batcher calls. All but ``device_lost`` runs in the model's thread."""

    def predict(self, items: list[Any], group: Hashable) -> Sequence[Any]:
        """Return one answer for each item. ``group`` is what ``submit`` was given for all of them."""
        ...

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        """Return what an error of ``predict`` means: DeviceLost ends all, OutOfMemory needs a smaller batch.

        ``index`` is the item's place in its request if it was alone in the batch.
        """
        ...

    def too_large(self, index: int) -> ServiceError:
        """Return the error for an item that does not fit into memory, although others do."""
        ...

    def release(self) -> None:
        """Give cached device memory back."""

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """Record a batch that was answered."""

    def device_lost(self, error: DeviceLost) -> None:
        """Called once, in the event loop, when nothing can be answered any more."""


class Batcher:
    """A bounded queue of inputs and the thread that answers them; ``busy_since`` is when the model was called."""

    def __init__(
        self, handler: BatchHandler, *, limit: int, max_queue: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.lost: DeviceLost | None = None
        self.busy_since: float | None = None
        self.memory = BatchLimit(limit)
        self._cost = Cost()
        self.queue = BatchQueue(self.memory, self._cost, max_queue, clock)
        self._handler, self._clock = handler, clock
        self._seconds_per_item, self._largest_answered = 0.0, 0
        self._too_large: list[tuple[Call, int, ServiceError]] = []
        self._waking, self._progress = False, False

    @property
    def limit(self) -> int:
        """The largest batch now."""
        return self.memory.now

    @limit.setter
    def limit(self, most: int) -> None:
        self.memory.now = self.memory.most = most

    def start(self, prepare: Callable[[], bool] = lambda: True) -> None:
        """Start the thread, which first runs ``prepare`` and ends if that is false. Call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(prepare,), name="model", daemon=True).start()

    def stop(self) -> None:
        """Accept nothing more; the thread ends when all is answered."""
        self.queue.close()

    def submit(
        self,
        items: Sequence[Any],
        *,
        sizes: Sequence[int] | None = None,
        group: Hashable = None,
        client: Hashable = None,
    ) -> Call:
        """Queue items; the future ``call.done`` gives the answers in order. Raises QueueFull, DeviceLost or NotReady.

        ``sizes`` are by default the lengths of texts. See Call.
        """
        if self.lost:
            raise DeviceLost(self.lost.detail)
        if self.queue.closed:
            raise NotReady("the service is stopping", retry_after=1)
        if sizes is None:
            sizes = [len(item) if isinstance(item, str) else 1 for item in items]
        count = len(items)
        call = Call(
            items, sizes, group, client, [None] * count, self._loop.create_future(), self._clock(), count, count
        )
        if not count:
            call.done.set_result([])
            return call
        try:
            self.queue.add(call)
        except QueueFull as full:
            seconds = max(1, ceil(self.queue.depth * self._seconds_per_item))
            raise QueueFull(full.detail, retry_after=seconds) from None
        if not self._waking:  # once for all that come together: each time the interpreter changes threads
            self._waking = True
            self._loop.call_soon(self._wake)
        return call

    def _wake(self) -> None:
        self._waking = False
        self.queue.wake()

    def drop(self, call: Call, error: ServiceError) -> None:
        """Give a call up: ``call.done`` raises ``error``, and its inputs that are not in the model are freed."""
        if call.gone or not call.left:
            return
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
                self._tell(self._end_all, ServiceError("the log has the traceback"))

    def _turn(self) -> bool:
        batch, known_to_fail = self.queue.take()
        started, self._progress = self._clock(), False
        if known_to_fail and len(batch) > 1:
            self._search(batch)
        elif batch:
            self._run(batch)
        self._judge_too_large()
        self.queue.charge(self._clock() - started)
        return bool(batch)

    def _run(self, batch: Batch) -> None:
        error = self._call(batch)
        if isinstance(error, OutOfMemory):
            self._in_parts(batch, error)
        elif error is not None:
            self._failed(batch, error, first=False)

    def _search(self, batch: Batch) -> None:
        """Halve a batch that fails. If the first half is answered, the fault is in the second, which is not called."""
        half = len(batch) // 2
        first, second = batch[:half], batch[half:]
        error = self._call(first)
        if error is None:
            self.queue.search(second, first=True)
        elif isinstance(error, OutOfMemory):
            self._in_parts(first, error)
            self.queue.search(second, first=True)
        elif not isinstance(error, DeviceLost):
            self.queue.put_back(second)
            self._failed(first, error, first=True)

    def _failed(self, batch: Batch, error: ServiceError, *, first: bool) -> None:
        if isinstance(error, DeviceLost):
            return
        if len(batch) > 1:
            return self.queue.search(batch, first=first)
        [(call, _)] = batch
        self.queue.quarantine(call.client)
        self._tell(self.drop, call, error)

    def _in_parts(self, batch: Batch, error: ServiceError) -> None:
        """Answer a batch in parts that fit into memory, and lower the limit unless an input is too large alone."""
        found = len(self._too_large)
        answered = self._largest_part(batch, error)
        if len(self._too_large) == found:
            self.memory.short(batch, answered)

    def _largest_part(self, batch: Batch, error: ServiceError) -> Batch:
        if len(batch) == 1:
            self._too_large.append((*batch[0], error))
            return []
        batch = by_size(batch)
        cut = len(batch) - 1 if is_uneven(batch) else len(batch) // 2
        answered = self._fitting(batch[:cut])
        size = len(answered) or len(batch)
        for start in range(cut, len(batch), size):
            answered = max(answered, self._fitting(batch[start : start + size]), key=len)
        return answered

    def _fitting(self, part: Batch) -> Batch:
        error = self._call(part)
        if isinstance(error, OutOfMemory):
            return self._largest_part(part, error)
        if error is not None:
            self._failed(part, error, first=False)
        return part if error is None else []

    def _judge_too_large(self) -> None:
        """Distinguish an input that is too large from a device on which nothing fits now."""
        tried, self._too_large = self._too_large, []
        if len(tried) > 1 and self._progress:  # there may have been no memory for any when these were called
            for call, index, _ in tried:
                self._run([(call, index)])
            tried, self._too_large = self._too_large, []
        for call, index, error in tried:
            fitted_before = not call.gone and call.sizes[index] <= self._largest_answered
            if fitted_before and not self._progress:
                self._tell(self.drop, call, error)
            else:
                self.queue.quarantine(call.client)
                self._tell(self.drop, call, self._handler.too_large(index))

    def _call(self, batch: Batch) -> ServiceError | None:
        """Call the model with a batch; return the error if it fails."""
        batch, items = self.queue.begin(batch)
        if not batch:
            return None
        started, error = self._clock(), None
        self.busy_since = started
        answers: Sequence[Any] = ()
        try:
            answers = list(self._handler.predict(items, batch[0][0].group))
            if len(answers) != len(items):
                raise ValueError(f"predict returned {len(answers)} answers for {len(items)} inputs")
        except BaseException as caught:
            error = self._classify(caught, batch[0][1] if len(batch) == 1 else None)
        self.busy_since = None  # from here on no traceback holds the memory of a failed batch
        self.queue.end(answered=error is None)
        if error is None:
            self._answered(batch, answers, started)
        elif isinstance(error, DeviceLost):
            self.lost = error
            self._tell(self._device_lost, error)
        elif isinstance(error, OutOfMemory):
            self._handler.release()
        return error

    def _answered(self, batch: Batch, answers: Sequence[Any], started: float) -> None:
        seconds = self._clock() - started
        self._progress = True
        self._tell(self._deliver, batch, answers, started, started + seconds)
        self._seconds_per_item += SMOOTHING * (seconds / len(batch) - self._seconds_per_item)
        largest = max(call.sizes[index] for call, index in batch)
        self._largest_answered = max(self._largest_answered, largest)
        self._cost.learn(len(batch), largest, seconds)
        self.memory.fitted(len(batch), largest)
        self._handler.batch_done(batch, seconds)

    def _classify(self, error: BaseException, index: int | None) -> ServiceError:
        try:
            return self._handler.classify(error, index)
        except BaseException:  # an error whose message cannot be read
            log.exception("the model raised %s, whose message cannot be read", type(error).__name__)
            name = f"the model raised {type(error).__name__}"
            return PredictionFailed(name, errors=[{"field": f"instances.{index}", "reason": name}])

    def _deliver(self, batch: Batch, answers: Sequence[Any], started: float, ended: float) -> None:
        for (call, index), answer in zip(batch, answers, strict=True):
            if call.gone:
                continue
            call.answers[index] = answer
            call.started_at, call.batch_size = call.started_at or started, len(batch)
            call.ended_at = ended
            call.left -= 1
            if not call.left:
                self.queue.calls.pop(call, None)
                if not call.done.done():
                    call.done.set_result(call.answers)

    def _device_lost(self, error: DeviceLost) -> None:
        self._end_all(error)
        self._handler.device_lost(error)

    def _end_all(self, error: ServiceError) -> None:
        for call in list(self.queue.calls):
            self.drop(call, type(error)(error.detail))

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)
