"""What is held: calls that wait, what the model has of them now, and which batch is next."""

import threading
from collections import deque
from collections.abc import Hashable
from typing import Any

from .budget import Budgets
from .call import Batch, Call, Standing, address_of
from .errors import QueueFull
from .lanes import Lanes
from .ordering import Ordering
from .suspicion import Suspicion


class Waiting:
    """A bounded queue between the event loop and the model's thread; every method may be called in both.

    ``count`` is the items that wait, ``orphans`` those that the model computes for nobody any more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = self.orphans = 0
        self.ordering, self.budgets = Ordering(), Budgets()
        self.calls: dict[Call, None] = {}  # in the order in which they came
        self.closed = False
        self._changed = threading.Condition(threading.Lock())
        self._lanes = Lanes()
        self._held: dict[Hashable, int] = {}  # by address, or by the client that a header names
        self._running: Batch = []
        self._searched: deque[Batch] = deque()
        self._searches = False
        self._news = 0  # that those who wait are sorted by

    @property
    def depth(self) -> int:
        """The items that are held and not being computed for somebody."""
        return self.count + self.orphans

    def close(self) -> None:
        """``take`` returns nothing as soon as nothing waits."""
        with self._changed:
            self.closed = True
            self._changed.notify()

    def add(self, call: Call) -> None:
        """Let a call wait for its turn; ``wake`` tells the model's thread. Raises QueueFull."""
        with self._changed:
            source = address_of(call.client)
            held = 0 if source is None else self._held.get(source, 0)
            if self.depth + call.waiting > self.most:
                raise QueueFull(f"{self.depth} of {self.most} places are taken")
            if held and source is call.client and 2 * (held + call.waiting) > self.most:
                raise QueueFull(f"{held} of {self.most} places are taken by one client, who may have half of them")
            if source is not None:
                self._held[source] = held + call.waiting
            self.calls[call] = None
            self.count += call.waiting
            self._lanes.add(call)

    def in_the_way_of(self, call: Call) -> list[Call]:
        """Return what has to leave a full queue for a call: the last that came of who holds more than half of it.

        That is an address, or, for a client that is proven, all those together who are not. Nobody gives way for less.
        """
        with self._changed:
            source = max(self._held, key=self._held.__getitem__, default=None)
            if source is not None and source != address_of(call.client) and 2 * self._held[source] > self.most:
                others = [other for other in self.calls if address_of(other.client) == source]
            elif call.standing is Standing.SHARED:
                others = [other for other in self.calls if other.standing is not Standing.SHARED]
            else:
                return []
            room, spare = self.most - self.depth, sum(other.waiting for other in others) - self.most // 2
            leaving: list[Call] = []
            for other in reversed(others):
                if room < call.waiting and 0 < other.waiting <= spare and other.waiting == len(other.sizes):
                    leaving.append(other)
                    room, spare = room + other.waiting, spare - other.waiting
            return leaving if room >= call.waiting else []

    def wake(self) -> None:
        """Let ``take`` look again."""
        with self._changed:
            self._changed.notify()

    def remove(self, call: Call, *, hung_up: bool = False) -> None:
        """Free a call that nobody waits for any more; ``hung_up``: its client has gone."""
        with self._changed:
            call.gone, call.hung_up = True, hung_up
            self._lanes.remove(call)
            self.forget(call)
            self.count -= call.waiting
            self.orphans += sum(other is call for other, _ in self._running)
            call.waiting, call.items, call.answers = 0, (), []

    def forget(self, call: Call) -> None:
        """Forget a call of which nothing waits."""
        self.calls.pop(call, None)
        if (source := address_of(call.client)) is not None:
            self._held[source] -= len(call.sizes)
            if not self._held[source]:
                del self._held[source]

    def take(self, limit: int, suspicion: Suspicion) -> tuple[Batch, bool]:
        """Wait for the next batch, of ``limit`` items at most; none when the queue is closed and empty.

        The other one is whether one of them is known to make the model fail.
        """
        with self._changed:
            while True:
                while not (self._lanes or self._searched or self.closed):
                    self._changed.wait()
                if self._news != suspicion.news:
                    self._sort_again(suspicion)
                if self._searched and not suspicion.alarmed():
                    return self._searched.popleft(), True
                patience = self.budgets.patience(self._waiting())
                if patience and not self._changed.wait_for(self._shared_wait, patience):
                    self.budgets.forgive()
                if waiting := self._waiting():
                    mostly = 2 * sum(map(len, self._searched)) > self.count
                    return self._due(self.budgets.due(waiting, mostly_searched=mostly), limit, suspicion)
                if self.closed:
                    return [], False

    def _due(self, standing: Standing, limit: int, suspicion: Suspicion) -> tuple[Batch, bool]:
        if standing is Standing.ALONE:
            self._searches = bool(self._searched) and (not self._searches or standing not in self._lanes.waiting)
            if self._searches:
                return self._searched.popleft(), True
        lane = self._lanes.first(standing)
        if lane.standing is not Standing.ALONE and (among_others := suspicion.largest_batch(lane.one)):
            limit = min(limit, among_others)
        return self.ordering.next_batch(self._lanes, lane, limit), False

    def _sort_again(self, suspicion: Suspicion) -> None:
        """Let everybody wait with those whom it is like, now that more is known; but for what has begun."""
        self._news = suspicion.news
        searched = {call for batch in self._searched for call, _ in batch}
        for call in self.calls:
            standing = suspicion.of(call)
            if standing is not call.standing and call.waiting == len(call.sizes) and call not in searched:
                self._lanes.remove(call)
                call.standing, call.next = standing, 0
                self._lanes.add(call)

    def put_back(self, batch: Batch) -> None:
        """Nothing is known of these, which were in the model with one that fails: they go first."""
        with self._changed:
            by_lane: dict[Hashable, Batch] = {}
            for entry in batch:
                if not entry[0].gone:
                    by_lane.setdefault(entry[0].lane, []).append(entry)
            for entries in by_lane.values():
                self._lanes.put_back(entries)

    def search(self, batch: Batch, *, first: bool) -> None:
        """One of these makes the model fail; ``first``: it is being searched for already."""
        with self._changed:
            (self._searched.appendleft if first else self._searched.append)(batch)

    def enter(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Return what of a batch somebody still waits for, and its items, which are in the model from now on."""
        with self._changed:
            batch = [entry for entry in batch if not entry[0].gone]
            for call, _ in batch:
                call.waiting -= 1
            self.count -= len(batch)
            self._running = batch
            return batch, [call.items[index] for call, index in batch]

    def leave(self, *, answered: bool) -> None:
        """What was in the model is not in it any more, and waits again where it was not answered."""
        with self._changed:
            running, self._running, self.orphans = self._running, [], 0
            for call, _ in () if answered else running:
                if not call.gone:
                    call.waiting += 1
                    self.count += 1

    def pay(self, standing: Standing, seconds: float, size: int) -> None:
        """Take in how long a call of so many items took."""
        with self._changed:
            few = size < self._lanes.limit < self.count and size < sum(
                call.waiting for call in self.calls if call.standing < Standing.FAILING
            )
            self.budgets.pay(standing, seconds, self._waiting(), few=few)

    def _shared_wait(self) -> bool:
        return Standing.SHARED in self._lanes.waiting

    def _waiting(self) -> set[Standing]:
        return self._lanes.waiting | {Standing.ALONE} if self._searched else self._lanes.waiting
