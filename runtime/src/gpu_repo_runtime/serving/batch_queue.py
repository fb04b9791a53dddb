"""The inputs that wait for the model, and which of them make up the next batch.

Each request in turn puts a few inputs into the batch. If lengths differ, several batches are planned together. Parts of
a batch that failed wait apart and get half of the model's time while others wait. So do requests from an address whose
inputs failed lately: they share no batch with others and get a fifth.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from .batch_limit import BatchLimit
from .batch_planning import MAX_COST_RATIO, MIN_SAVING_S, PLANNED_BATCHES, Cost, plan
from .call import Batch, Call
from .errors import QueueFull

QUARANTINE_SECONDS = 10.0
# Seconds of the model for the others, for each second of a batch that failed, and of a quarantined address.
SHARE_BESIDE_FAILED, SHARE_BESIDE_QUARANTINED = 1, 4
# A request puts at most this part of a batch in, before it is the turn of the next one.
TURN_SHARE = 8
FIRST = object()  # the group of the first request


class BatchQueue:
    """A bounded queue of ``count`` inputs. After ``close``, ``take`` returns an empty batch when all are answered."""

    def __init__(self, limit: BatchLimit, cost: Cost, max_queue: int, clock: Callable[[], float]) -> None:
        self.closed = False
        self.calls: dict[Call, None] = {}  # not answered, in the order in which they came
        self._limit, self._cost, self._max_queue, self._clock = limit, cost, max_queue, clock
        self._changed = threading.Condition()
        self.count, self._orphans, self._gone = 0, 0, 0
        self._running: Batch = []
        self._requests: deque[Call] = deque()  # with inputs in no batch yet, in the order of their turns
        self._returned: deque[Batch] = deque()  # parts of batches that failed, not known to fail themselves
        self._planned: deque[Batch] = deque()
        self._failed: deque[Batch] = deque()  # an input of each makes the model fail
        self._suspects: deque[Call] = deque()
        self._quarantined: dict[Hashable, float] = {}
        self._apart, self._share, self._owed = False, 1, 0.0

    @property
    def depth(self) -> int:
        """The inputs that wait, and those that the model computes for a client that has gone."""
        return self.count + self._orphans

    def add(self, call: Call) -> None:
        """Queue a call. Raises QueueFull."""
        count = len(call.items)
        if self.depth + count > self._max_queue:
            raise QueueFull(f"{self.depth} of {self._max_queue} places are taken")
        with self._changed:
            (self._suspects if self._is_quarantined(call) else self._requests).append(call)
            self.calls[call] = None
            self.count += count

    def wake(self) -> None:
        """Let ``take`` see what was added."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """Let ``take`` end when nothing waits."""
        with self._changed:
            self.closed = True
            self._changed.notify()

    def remove(self, call: Call) -> None:
        """Free the places of a call that nobody waits for."""
        with self._changed:
            call.gone = True
            self.calls.pop(call, None)
            self.count -= call.waiting
            self._orphans += sum(other is call for other, _ in self._running)
            call.waiting, call.items, call.answers = 0, (), []
            self._gone += 1
            if self._gone > self._max_queue:  # the model may be busy for long
                self._requests, self._gone = deque(one for one in self._requests if not one.gone), 0

    def take(self) -> tuple[Batch, bool]:
        """Wait for the next batch; the second value is true if an input of it is known to make the model fail."""
        with self._changed:
            while True:
                common, apart = bool(self._requests or self._returned or self._planned), self._failed or self._suspects
                if not (common or apart):
                    if self.closed:
                        return [], False
                    self._changed.wait()
                    continue
                self._apart = bool(apart) and (not common or self._owed <= 0)
                failed = self._apart and bool(self._failed)
                batch = self._failed.popleft() if failed else self._next_batch()
                if batch := [entry for entry in batch if not entry[0].gone]:
                    quarantined = self._is_quarantined(batch[0][0])
                    self._share = SHARE_BESIDE_QUARANTINED if quarantined else SHARE_BESIDE_FAILED
                    return batch, failed

    def charge(self, seconds: float) -> None:
        """Record how long the batch took, so that the others have their share before the next one apart."""
        self._owed = max(0.0, self._owed + self._share * seconds if self._apart else self._owed - seconds)

    def begin(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Return the part of a batch that somebody still waits for, and its inputs: the model computes them now."""
        with self._changed:
            batch = [entry for entry in batch if not entry[0].gone]
            for call, _ in batch:
                call.waiting -= 1
            self.count -= len(batch)
            self._running = batch
            return batch, [call.items[index] for call, index in batch]

    def end(self, *, answered: bool) -> None:
        """The model has finished its batch."""
        with self._changed:
            if not answered:
                for call, _ in self._running:
                    if not call.gone:
                        call.waiting += 1
                        self.count += 1
            self._running, self._orphans = [], 0

    def search(self, batch: Batch, *, first: bool = False) -> None:
        """Take back a batch of which an input makes the model fail."""
        (self._failed.appendleft if first else self._failed.append)(batch)

    def put_back(self, batch: Batch) -> None:
        """Take back a part of a batch that failed, which may be answered."""
        self._returned.append(batch)

    def quarantine(self, client: Hashable) -> None:
        """Call apart for a while what comes from a client of which an input failed."""
        if client is None:
            return
        with self._changed:
            now = self._clock()
            self._quarantined = {one: until for one, until in self._quarantined.items() if until > now}
            self._quarantined[client] = now + QUARANTINE_SECONDS
            moved = [call for call in self._requests if call.client == client and not call.next]
            if moved:
                self._suspects.extend(moved)
                self._requests = deque(call for call in self._requests if call.client != client or call.next)

    def _is_quarantined(self, call: Call) -> bool:
        return bool(self._quarantined) and self._quarantined.get(call.client, 0.0) > self._clock()

    def _next_batch(self) -> Batch:
        if self._apart:
            batch = self._round(self._suspects, self._limit.now)
        else:
            if not self._planned:
                self._plan()
            batch = self._planned.popleft() if self._planned else []  # all may have gone
        batch, *later = self._limit.pieces(batch) if batch else [batch]
        self._planned.extendleft(reversed(later))
        return batch

    def _plan(self) -> None:
        """Plan the next batch, or several if sorting by length saves time."""
        limit = self._limit.now
        entries = self._take_returned(limit)
        entries += self._round(self._requests, limit - len(entries), entries[0][0].group if entries else FIRST)
        if self._cost.highest * PLANNED_BATCHES > MIN_SAVING_S and self._is_uneven(entries):
            if self._requests and not self._requests[0].next:  # the others have had their turn in this batch
                entries += self._round(self._requests, PLANNED_BATCHES * limit - len(entries), entries[0][0].group)
            order, sizes = plan([call.sizes[index] for call, index in entries], limit, self._cost)
            entries, sizes = [entries[i] for i in order], sizes[::-1]
        else:
            sizes = []
        start = 0
        for size in sizes or [limit] * -(-len(entries) // limit):
            self._planned.append(entries[start : start + size])
            start += size

    def _take_returned(self, most: int) -> Batch:
        """Take parts of batches that failed, of one group: small ones together, because each call has a fixed cost."""
        batch: Batch = []
        while self._returned and (not batch or len(batch) + len(self._returned[0]) <= most):
            if batch and self._returned[0][0][0].group != batch[0][0].group:
                break
            batch += self._returned.popleft()
        return batch

    def _is_uneven(self, entries: Batch) -> bool:
        sizes = [call.sizes[index] for call, index in entries]
        sizes += [size for call in self._requests for size in call.sizes[call.next :]]
        return sum(sizes) <= MAX_COST_RATIO * len(sizes) * max(sizes, default=0)

    def _round(self, requests: deque[Call], most: int, group: Hashable = FIRST) -> Batch:
        """Take up to ``most`` inputs of one group: each request in turn puts in some."""
        batch: Batch = []
        kept: list[Call] = []
        group = requests[0].group if group is FIRST and requests else group
        turn = max(1, self._limit.now // TURN_SHARE)
        while requests and len(batch) < most:
            call = requests.popleft()
            if call.gone:
                continue
            if call.group != group:
                kept.append(call)
                continue
            end = min(len(call.items), call.next + min(turn, most - len(batch)))
            batch += [(call, index) for index in range(call.next, end)]
            call.next = end
            if end < len(call.items):
                requests.append(call)
        requests.extendleft(reversed(kept))
        return batch
