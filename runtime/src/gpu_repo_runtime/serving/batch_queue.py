"""The inputs that wait for the model, and which of them make up the next batch.

Each request in turn puts a few inputs into the batch. If lengths differ, several batches are planned together. Requests
from an address whose inputs failed lately wait apart: they share no batch with others, and while others wait they get
a fifth of the time.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from .batch_planning import MAX_COST_RATIO, MIN_SAVING_S, PLANNED_BATCHES, BatchLimit, Cost, plan

QUARANTINE_SECONDS = 10.0
# Seconds of the model for the others, for each second of a quarantined address.
SHARE_OF_OTHERS = 4
# A request puts at most this part of a batch in, before it is the turn of the next one.
TURN_SHARE = 8
# Two batches, each of half the clients, would take turns for ever. So clients that have just been answered are waited
# for, if the last ones came back in this part of the time that one batch saves over two.
PATIENCE = 0.5
FIRST = object()  # the group of the first request


@dataclass(slots=True, eq=False)
class Call:
    """The inputs of one request and their answers; times in seconds of ``time.perf_counter``.

    ``predict`` answers a list of inputs; inputs of different ``group`` never share a batch. ``sizes`` has a number for
    each input, by which batches are planned. ``client`` is the address, or the value of CLIENT_HEADER, that is
    quarantined if an input fails.
    """

    items: Sequence[Any]
    predict: Callable[[list[Any]], Sequence[Any]]
    sizes: Sequence[int]
    group: Hashable
    client: Hashable
    answers: list[Any]
    done: Any  # a future
    queued_at: float
    waiting: int  # inputs that are neither answered nor in the model
    left: int  # inputs that are not answered
    next: int = 0  # the first input that is in no batch yet
    gone: bool = False  # the client has gone, or its time is over
    started_at: float = 0.0  # of its first batch
    batch_size: int = 0
    receive: Any = None  # of ASGI: says that the client has gone
    watcher: Any = None  # the task that waits for that


Batch = list[tuple[Call, int]]


def sizes_of(batch: Batch) -> list[int]:
    """Return the size of each input of a batch."""
    return [call.sizes[index] for call, index in batch]


class BatchQueue:
    """A queue of ``count`` inputs, at ``most``. After ``close``, ``take`` returns an empty batch when all are done."""

    def __init__(self, limit: BatchLimit, cost: Cost, max_queue: int, clock: Callable[[], float]) -> None:
        self.closed, self.count = False, 0
        self._limit, self._cost, self.most, self._clock = limit, cost, max_queue, clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Calls with inputs in no batch yet, in the order of their turns.
        self._calls: OrderedDict[Call, None] = OrderedDict()
        self._suspects: OrderedDict[Call, None] = OrderedDict()
        self._planned: deque[Batch] = deque()
        self._quarantined: dict[Hashable, float] = {}
        self._apart, self._owed = False, 0.0
        # Of the last answers: how many inputs are still to follow, when all had, and how long that took before.
        self._missing, self._answered_at, self._back_at, self._back_after = 0, 0.0, inf, inf

    def add(self, call: Call) -> bool:
        """Queue a call, if there is room; ``wake`` lets ``take`` see it."""
        if self.count + call.left > self.most:
            return False
        with self._lock:
            suspect = bool(self._quarantined) and self._quarantined.get(call.client, 0.0) > self._clock()
            (self._suspects if suspect else self._calls)[call] = None
            self.count += call.left
            self._missing -= call.left
            if self._missing <= 0:
                self._back_at = min(self._back_at, self._clock())
            return True

    def wake(self, *, close: bool = False) -> None:
        """Let ``take`` look again, for calls that were added or, with ``close``, because no more will come."""
        with self._lock:
            self.closed = self.closed or close
            self._changed.notify()

    def remove(self, call: Call) -> None:
        """Free the places of a call whose answer is not needed any more."""
        with self._lock:
            self.count -= call.waiting
            call.gone, call.waiting, call.items, call.answers = True, 0, (), []
            self._calls.pop(call, None)
            self._suspects.pop(call, None)

    def take(self) -> Batch:
        """Wait for the next batch."""
        with self._lock:
            while True:
                common = bool(self._calls or self._planned)
                if common or self._suspects:
                    if (patience := self._patience()) > 0:
                        self._changed.wait_for(lambda: self._patience() <= 0, patience)
                        self._missing = 0
                        continue
                    self._apart = bool(self._suspects) and (not common or self._owed <= 0)
                    if batch := [entry for entry in self._next_batch() if not entry[0].gone]:
                        return batch
                elif self.closed:
                    return []
                else:
                    self._changed.wait()

    def _patience(self) -> float:
        """Return how long to wait for clients that have just been answered, if one batch takes less time than two."""
        together = min(self.count + self._missing, self._limit.now)
        if self._planned or self._suspects or self.closed or together <= self.count:
            return 0.0
        longest = PATIENCE * (2 * self._cost.least(together // 2) - self._cost.least(together))
        return self._answered_at + longest - self._clock() if self._back_after < longest else 0.0

    def answered(self, count: int) -> None:
        """Record that so many inputs have their answers."""
        self._back_after = self._back_at - self._answered_at
        self._missing, self._answered_at, self._back_at = count, self._clock(), inf

    def charge(self, seconds: float) -> None:
        """Record how long the batch took, so that the others have their share before the next one apart."""
        self._owed = self._owed + SHARE_OF_OTHERS * seconds if self._apart else max(0.0, self._owed - seconds)

    def begin(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Return the part of a batch whose clients still wait, and its inputs: the model computes them now."""
        with self._lock:
            batch = [entry for entry in batch if not entry[0].gone]
            for call, _ in batch:
                call.waiting -= 1
            self.count -= len(batch)
            return batch, [call.items[index] for call, index in batch]

    def failed(self, batch: Batch) -> None:
        """The inputs of a batch wait again: the model failed."""
        with self._lock:
            for call, _ in batch:
                if not call.gone:
                    call.waiting += 1
                    self.count += 1

    def quarantine(self, client: Hashable) -> None:
        """Call apart for a while what comes from a client of which an input failed."""
        if client is None:
            return
        with self._lock:
            now = self._clock()
            self._quarantined = {one: until for one, until in self._quarantined.items() if until > now}
            if client not in self._quarantined:
                for call in [one for one in self._calls if one.client == client and not one.next]:
                    del self._calls[call]
                    self._suspects[call] = None
            self._quarantined[client] = now + QUARANTINE_SECONDS

    def _next_batch(self) -> Batch:
        if not self._apart and not self._planned:
            self._plan()
        batch = self._round(self._suspects, self._limit.most) if self._apart else self._planned.popleft()
        if (fits := self._limit.first_part(sizes_of(batch))) < len(batch):
            batch.sort(key=lambda entry: entry[0].sizes[entry[1]])
            self._planned.appendleft(batch[fits:])
        return batch[:fits]

    def _plan(self) -> None:
        """Plan the next batch, or several if sorting by length saves time."""
        most = self._limit.most
        entries = self._round(self._calls, most)
        counts: list[int] = []
        if self._cost.highest * PLANNED_BATCHES > MIN_SAVING_S and self._is_uneven(entries):
            if self._calls and not next(iter(self._calls)).next:  # the others have had their turn in this batch
                entries += self._round(self._calls, PLANNED_BATCHES * most - len(entries), entries[0][0].group)
            order, counts = plan(sizes_of(entries), most, self._cost)
            entries = [entries[i] for i in order]
        start = 0
        for count in counts[::-1] or [most] * -(-len(entries) // most):
            self._planned.append(entries[start : start + count])
            start += count

    def _is_uneven(self, entries: Batch) -> bool:
        sizes = sizes_of(entries) + [size for call in self._calls for size in call.sizes[call.next :]]
        return sum(sizes) <= MAX_COST_RATIO * len(sizes) * max(sizes)

    def _round(self, calls: OrderedDict[Call, None], most: int, group: Hashable = FIRST) -> Batch:
        """Take up to ``most`` inputs of one group, by default the first one's: each call in turn puts in some."""
        batch: Batch = []
        kept: list[Call] = []
        turn = max(1, self._limit.most // TURN_SHARE)
        while calls and len(batch) < most:
            call, _ = calls.popitem(last=False)
            group = call.group if group is FIRST else group
            if call.group != group:
                kept.append(call)
                continue
            end = min(len(call.items), call.next + min(turn, most - len(batch)))
            batch += [(call, index) for index in range(call.next, end)]
            call.next = end
            if end < len(call.items):
                calls[call] = None
        for call in reversed(kept):
            calls[call] = None
            calls.move_to_end(call, last=False)
        return batch
