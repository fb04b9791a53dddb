"""Adaptive batching in front of one model on one device.

One thread owns the model. When the device is free it takes the inputs that wait, up to a limit. Each request in turn
puts a few inputs into the batch; if lengths differ, several batches are planned together. If a batch fails, halving
finds the input that makes the model fail. Requests from its address then wait apart for a while: they share no batch
with others, and while others wait they get a fifth of the time. If memory runs out, a batch is answered in parts.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import ceil
from typing import Any, TypeVar

from .batch_planning import (
    MIN_SAVING_S,
    PLANNED_BATCHES,
    Batch,
    BatchLimit,
    Call,
    Cost,
    fitting,
    is_uneven,
    plan,
    sizes_of,
)
from .errors import ServiceError, invalid_input, of_model
from .metrics import Metrics

T = TypeVar("T")
log = logging.getLogger(__name__)
QUARANTINE_SECONDS = 10.0
# Seconds of the model for the others, for each second of a quarantined address.
SHARE_OF_OTHERS = 4
# A request puts at most this part of a batch in, before it is the turn of the next one.
TURN_SHARE = 8
# Two batches, each of half the clients, would take turns for ever. So clients that have just been answered are waited
# for, at most this part of the time of the last call, and not at all if that is too short to pay: for as many as came
# back the last time, and one more.
PATIENCE, LEAST_PATIENCE_S, MOST_PATIENCE_S = 0.4, 0.001, 0.004
FIRST = object()  # the group of the first request


class Batcher:
    """A bounded queue of inputs and the thread that answers them.

    ``release`` gives cached device memory back, in the model's thread; ``device_lost`` ends the service. ``calls`` are
    not answered yet, in the order of arrival; ``busy_since`` is when the model was called.
    """

    def __init__(
        self,
        metrics: Metrics,
        release: Callable[[], None],
        device_lost: Callable[[str], None],
        *,
        limit: int,
        max_queue: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.limit, self.calls = BatchLimit(limit), dict[Call, None]()
        self.busy_since: float | None = None
        self._metrics, self._release, self._device_lost = metrics, release, device_lost
        self._max_queue, self._clock, self._cost = max_queue, clock, Cost()
        self._lost = ""  # why
        self._unanswered, self._in_model = 0, 0  # inputs
        self._closed = self._waking = False
        self._changed = threading.Condition(threading.Lock())
        # Calls with inputs in no batch yet, in the order of their turns.
        self._requests, self._suspects = OrderedDict[Call, None](), OrderedDict[Call, None]()
        self._planned: deque[Batch] = deque()
        self._quarantined: dict[Hashable, float] = {}  # until when
        self._apart, self._owed = False, 0.0
        self._answered, self._seconds, self._returning = 0, 0.0, limit  # requests and seconds of the last call
        self._largest_answered = 0

    @property
    def waiting(self) -> int:
        """Inputs that wait for the model."""
        return max(0, self._unanswered - self._in_model)

    async def start(self, prepare: Callable[[], T]) -> T:
        """Run ``prepare`` in the model's thread, return its result, and answer calls from then on. Raises its error."""
        self._loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "model")
        result = await self._loop.run_in_executor(thread, prepare)
        thread.submit(self._work)
        return result

    def stop(self) -> None:
        """Accept nothing more; the thread ends when all is answered."""
        self._closed = True
        self._wake()

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
        if self._lost:
            raise ServiceError(self._lost, "device_lost")
        if self._closed:
            raise ServiceError("the service is stopping", "not_ready", retry_after=1)
        count = len(items)
        if self.waiting + count > self._max_queue:
            seconds = ceil(self.waiting / self.limit.now * self._cost.highest)
            detail = f"{self.waiting} of {self._max_queue} places in the queue are taken (MAX_QUEUE)"
            raise ServiceError(detail, "queue_full", retry_after=max(1, seconds))
        if sizes is None:
            sizes = [len(item) if isinstance(item, str) else 1 for item in items]
        done, now = self._loop.create_future(), self._clock()
        call = Call(items, predict, sizes, group, client, done, now, [None] * count, count)
        self.calls[call] = None
        self._unanswered += count
        suspect = bool(self._quarantined) and self._quarantined.get(client, 0.0) > now
        with self._changed:
            (self._suspects if suspect else self._requests)[call] = None
        if not self._waking:  # once for all that come together: each time the interpreter changes threads
            self._waking = True
            self._loop.call_soon(self._wake)
        return call

    def _wake(self) -> None:
        self._waking = False
        with self._changed:
            self._changed.notify()

    def drop(self, call: Call, error: ServiceError) -> None:
        """Give a call up: ``call.done`` raises ``error``, and its inputs that are not in the model are freed."""
        if call not in self.calls:
            return
        del self.calls[call]
        self._unanswered -= call.left
        with self._changed:
            call.gone, call.items = True, ()
            self._requests.pop(call, None)
            self._suspects.pop(call, None)
        if not call.done.done():
            call.done.set_exception(error)

    def _drop_all(self, error: ServiceError) -> None:
        for call in list(self.calls):
            self.drop(call, ServiceError(error.detail, error.code))  # each one has its own traceback

    def _deliver(self, batch: Batch, answers: Sequence[Any]) -> None:
        for (call, index), answer in zip(batch, answers, strict=True):
            if call.gone:
                continue
            call.answers[index], call.batch_size = answer, len(batch)
            call.left -= 1
            self._unanswered -= 1
            if not call.left:
                del self.calls[call]
                if not call.done.done():
                    call.done.set_result(call.answers)

    # From here on in the model's thread.

    def _in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    def _work(self) -> None:
        while not self._lost and (batch := self._take()):
            started = self._clock()
            try:
                self._answer(batch)
            except Exception:  # a fault of the batcher: serve the next ones
                log.exception("internal error in the batcher")
                self._in_loop(self._drop_all, ServiceError("the log has the traceback"))
            seconds = self._clock() - started
            self._owed = self._owed + SHARE_OF_OTHERS * seconds if self._apart else max(0.0, self._owed - seconds)
            del batch  # an idle batcher holds no inputs

    def _take(self) -> Batch:
        """Wait for the next batch; an empty one if the queue is closed."""
        with self._changed:
            while True:
                common = bool(self._requests or self._planned)
                if common or self._suspects:
                    self._wait_for_those_just_answered()
                    self._apart = bool(self._suspects) and (not common or self._owed <= 0)
                    batch = self._round(self._suspects, self.limit.most) if self._apart else self._next_planned()
                    if batch := self._fitting([entry for entry in batch if not entry[0].gone]):
                        return batch
                elif self._closed:
                    return []
                else:
                    self._changed.wait()

    def _wait_for_those_just_answered(self) -> None:
        expected, self._answered = min(self._answered, self._returning), 0
        seconds = min(PATIENCE * self._seconds, MOST_PATIENCE_S)
        if seconds >= LEAST_PATIENCE_S and not (self._planned or self._suspects):
            came = self._changed.wait_for(lambda: len(self._requests) >= expected or self._closed, seconds)
            self._returning = expected + 1 if came else len(self._requests)

    def _fitting(self, batch: Batch) -> Batch:
        """Return the smallest inputs, which fit into memory together; the others are next."""
        if (fits := self.limit.first_part(sizes_of(batch))) < len(batch):
            batch.sort(key=lambda entry: entry[0].sizes[entry[1]])
            self._planned.appendleft(batch[fits:])
        return batch[:fits]

    def _next_planned(self) -> Batch:
        """Return the next batch of the plan; if there is none, plan one, or several if sorting by length saves time."""
        if not self._planned:
            most, counts = self.limit.most, list[int]()
            entries = self._round(self._requests, most)
            others = [size for call in self._requests for size in call.sizes[call.next :]]
            if self._cost.highest * PLANNED_BATCHES > MIN_SAVING_S and is_uneven(sizes_of(entries) + others):
                if self._requests and not next(iter(self._requests)).next:  # the others have had their turn
                    entries += self._round(self._requests, PLANNED_BATCHES * most - len(entries), entries[0][0].group)
                order, counts = plan(sizes_of(entries), most, self._cost)
                entries = [entries[i] for i in order]
            start = 0
            for count in counts[::-1] or [most] * -(-len(entries) // most):
                self._planned.append(entries[start : start + count])
                start += count
        return self._planned.popleft() if self._planned else []

    def _round(self, calls: OrderedDict[Call, None], most: int, group: Hashable = FIRST) -> Batch:
        """Take up to ``most`` inputs of one group, by default the first one's: each call in turn puts in some."""
        batch: Batch = []
        turn = max(1, self.limit.most // TURN_SHARE)
        while len(batch) < most and (call := next((one for one in calls if group in (FIRST, one.group)), None)):
            group, end = call.group, min(len(call.items), call.next + min(turn, most - len(batch)))
            batch += [(call, index) for index in range(call.next, end)]
            call.next = end
            calls.move_to_end(call)
            if end == len(call.items):
                del calls[call]
        return batch

    def _answer(self, batch: Batch) -> bool:
        """Answer a batch, in parts if it fails; return whether it was answered as a whole."""
        error = self._call(batch)
        if len(batch) == 1 and error and error.code == "out_of_memory":
            self._judge(*batch[0], others_fit=False)
        elif len(batch) == 1 and error:
            self._give_up(batch[0][0], error)
        elif error and error.code == "out_of_memory":
            self._answer_in_parts(batch)
        elif error:
            self._search(batch)
        return error is None

    def _search(self, batch: Batch) -> None:
        """Halve a batch that fails. If the first half is answered, the fault is in the second, which is not called."""
        half = len(batch) // 2
        if self._answer(batch[:half]) and len(batch) - half > 1:
            self._search(batch[half:])
        elif not self._lost:
            self._answer(batch[half:])

    def _answer_in_parts(self, batch: Batch) -> None:
        """Answer a batch for which memory ran out in halves. If all inputs fit in some part, smaller batches follow."""
        batch.sort(key=lambda entry: entry[0].sizes[entry[1]])
        fitted, too_large, parts = 0, list[Batch](), [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        while parts and not self._lost:
            part = parts.pop(0)
            if fitted and (fits := fitting(sizes_of(part), fitted)) < len(part):
                parts.insert(0, part[fits:])
                part = part[:fits]
            error = self._call(part)
            if error is None:
                fitted = max(fitted, len(part) * max(sizes_of(part)))
            elif error.code != "out_of_memory":
                self._answer(part)  # another fault
            elif len(part) > 1:
                parts = [part[: len(part) // 2], part[len(part) // 2 :], *parts]
            else:
                too_large.append(part)
        if not too_large:
            self._metrics.memory_shortages.inc()
            self.limit.short(len(batch), max(sizes_of(batch)), fitted)
        for [(call, index)] in too_large:
            self._judge(call, index, others_fit=fitted > 0)

    def _judge(self, call: Call, index: int, *, others_fit: bool) -> None:
        """Distinguish an input that is too large from a device on which nothing fits now."""
        error = self._call([(call, index)])
        if error and error.code == "out_of_memory" and (others_fit or call.sizes[index] > self._largest_answered):
            detail = f"instances.{index} does not fit into memory; a smaller one may"
            reason = "the model ran out of memory with this input alone"
            error = invalid_input(index, reason, "input_too_large", detail)
        if error:
            self._give_up(call, error)

    def _give_up(self, call: Call, error: ServiceError) -> None:
        """Answer a call with the error of one input, and call apart for a while what comes from its client."""
        self._in_loop(self.drop, call, error)
        if call.client is None:
            return
        now = self._clock()
        known = {one: until for one, until in self._quarantined.items() if until > now}
        self._quarantined = known | {call.client: now + QUARANTINE_SECONDS}
        with self._changed:
            for other in [one for one in self._requests if one.client == call.client and not one.next]:
                del self._requests[other]
                self._suspects[other] = None

    def _call(self, batch: Batch) -> ServiceError | None:
        """Call the model with the inputs of a batch whose clients still wait; return the error if it fails."""
        with self._changed:
            batch = [entry for entry in batch if not entry[0].gone]
            items = [call.items[index] for call, index in batch]
        if not batch:
            return None
        self.busy_since = started = self._clock()
        for call, _ in batch:
            call.started_at = call.started_at or started
        self._in_model, error = len(batch), None
        try:
            answers = batch[0][0].predict(items)
            if len(answers) != len(items):
                raise ValueError(f"predict returned {len(answers)} answers for {len(items)} inputs")
            self._in_loop(self._deliver, batch, answers)
        except BaseException as caught:
            error = of_model(caught, batch[0][1] if len(batch) == 1 else None)
        self.busy_since, self._in_model = None, 0  # from here on no traceback holds the memory of a failed batch
        if error is None:
            self._learn(batch, started, self._clock() - started)
        elif error.code == "out_of_memory":
            self._release()
        elif error.code == "device_lost":
            self._lost = error.detail
            self._in_loop(self._drop_all, error)
            self._in_loop(self._device_lost, error.detail)
        return error

    def _learn(self, batch: Batch, started: float, seconds: float) -> None:
        self._answered, self._seconds, largest = len({call for call, _ in batch}), seconds, max(sizes_of(batch))
        self._largest_answered = max(self._largest_answered, largest)
        self._cost.learn(len(batch), largest, seconds)
        self.limit.answered(len(batch), largest)
        self._metrics.batch_done([started - call.queued_at for call, _ in batch], seconds)
