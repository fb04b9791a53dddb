"""What is held: calls that wait, what the model has of them now, and which batch is next."""

import threading
from collections.abc import Hashable
from typing import Any

from .call import Batch, Call
from .errors import QueueFull
from .lanes import Lane, Lanes
from .ordering import Ordering

# While others wait, calls that are kept apart get one second of the model for so many of the others.
QUARANTINE_RATIO = 3


class Waiting:
    """A bounded queue between the event loop and the model's thread; every method may be called in both.

    ``count`` is the items that wait, ``orphans`` those that the model computes for nobody any more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = self.orphans = 0
        self.ordering = Ordering()
        self.calls: set[Call] = set()
        self.closed = False
        self._changed = threading.Condition(threading.Lock())
        self._lanes = Lanes()
        self._held: dict[Hashable, int] = {}  # by client
        self._running: Batch = []
        self._again: Batch = []
        self._owed = 0.0

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

    def take(self, limit: int, among_others: int | None = None) -> Batch:
        """Wait for the next batch, of ``limit`` items at most; none when the queue is closed and empty.

        ``among_others`` is how many items of several calls may share it, where that is less.
        """
        with self._changed:
            while True:
                while not (self._lanes or self._again or self.closed):
                    self._changed.wait()
                batch = self._take_again(limit) if self._again else []
                lane = self._lanes.like(batch[0][0]) if batch else self._next_lane()
                if lane is None:  # all who were to be tried again have left
                    if self.closed:
                        return batch
                    continue
                if among_others and not lane.quarantine:
                    limit = min(limit, among_others)
                if len(batch) < limit and not (batch and lane.quarantine):
                    batch += self.ordering.next_batch(self._lanes, lane, limit - len(batch))
                if batch:
                    return batch

    def put_back(self, batch: Batch) -> None:
        """Nothing is known of these, which were in the model with one that fails: they go first."""
        self._again = batch + self._again

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

    def pay(self, seconds: float, *, kept_apart: bool) -> None:
        """Take in how long a batch took: calls that are kept apart have only a share of the model."""
        if not kept_apart:
            if self._owed:
                self._owed = max(0.0, self._owed - seconds)
            return
        with self._changed:
            if self._lanes.first(lambda lane: not lane.quarantine):
                self._owed += QUARANTINE_RATIO * seconds

    def _take_again(self, limit: int) -> Batch:
        here = [entry for entry in self._again if not entry[0].gone]
        lane = here[0][0].lane if here else None
        batch = [entry for entry in here if entry[0].lane == lane][:limit]
        self._again = [entry for entry in here if entry not in batch]
        return batch

    def _next_lane(self) -> Lane | None:
        if self._owed > 0 and (lane := self._lanes.first(lambda lane: not lane.quarantine)):
            return lane
        return self._lanes.first()
