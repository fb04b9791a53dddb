"""What is held: calls that wait, what the model has of them now, and which batch is next."""

import threading
from collections import deque
from collections.abc import Hashable
from typing import Any

from .budget import Budget
from .call import Batch, Call, Standing
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
        self.ordering, self.budget = Ordering(), Budget()
        self.calls: set[Call] = set()
        self.closed = False
        self._changed = threading.Condition(threading.Lock())
        self._lanes = Lanes()
        self._held: dict[Hashable, int] = {}  # by client
        self._running: Batch = []
        self._searched: deque[Batch] = deque()
        self._searches = False

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
            held = 0 if call.client is None else self._held.get(call.client, 0)
            if self.depth + call.waiting > self.most:
                raise QueueFull(f"{self.depth} of {self.most} places are taken")
            if held and 2 * (held + call.waiting) > self.most:
                raise QueueFull(f"{held} of {self.most} places are taken by one client, who may have half of them")
            if call.client is not None:
                self._held[call.client] = held + call.waiting
            self.calls.add(call)
            self.count += call.waiting
            self._lanes.add(call)

    def wake(self) -> None:
        """Let ``take`` look again."""
        with self._changed:
            self._changed.notify()

    def remove(self, call: Call) -> None:
        """Free a call that nobody waits for any more."""
        with self._changed:
            call.gone = True
            self._lanes.remove(call)
            self.forget(call)
            self.count -= call.waiting
            self.orphans += sum(other is call for other, _ in self._running)
            call.waiting, call.items, call.answers = 0, (), []

    def forget(self, call: Call) -> None:
        """Forget a call of which nothing waits."""
        self.calls.discard(call)
        if call.client is not None:
            self._held[call.client] -= len(call.sizes)
            if not self._held[call.client]:
                del self._held[call.client]

    def take(self, limit: int, suspicion: Suspicion) -> tuple[Batch, bool]:
        """Wait for the next batch, of ``limit`` items at most; none when the queue is closed and empty.

        The other one is whether one of them is known to make the model fail.
        """
        with self._changed:
            while True:
                while not (self._lanes or self._searched or self.closed):
                    self._changed.wait()
                if self._searched and not suspicion.alarmed():
                    return self._searched.popleft(), True
                patience = self.budget.patience(self._waiting())
                if patience and not self._changed.wait_for(self._shared_wait, patience):
                    self.budget.forgive()
                if waiting := self._waiting():
                    mostly = 2 * sum(map(len, self._searched)) > self.count
                    return self._due(self.budget.due(waiting, mostly_searched=mostly), limit, suspicion)
                if self.closed:
                    return [], False

    def _due(self, standing: Standing, limit: int, suspicion: Suspicion) -> tuple[Batch, bool]:
        if standing is Standing.ALONE:
            self._searches = bool(self._searched) and (not self._searches or standing not in self._lanes.waiting)
            if self._searches:
                return self._searched.popleft(), True
        elif among_others := suspicion.largest_batch(standing):
            limit = min(limit, among_others)
        return self.ordering.next_batch(self._lanes, self._lanes.first(standing), limit), False

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
            few = size < self._lanes.limit < self.count
            self.budget.pay(standing, seconds, self._waiting(), few=few)

    def _shared_wait(self) -> bool:
        return Standing.SHARED in self._lanes.waiting

    def _waiting(self) -> set[Standing]:
        return self._lanes.waiting | {Standing.ALONE} if self._searched else self._lanes.waiting
