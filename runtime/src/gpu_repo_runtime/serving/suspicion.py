"""Whose inputs have made the model fail, so that they are kept apart from the inputs of others."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import log
from typing import Any

from .call import Batch, Call, Standing, address_of
from .origins import Origins
from .trust import Trust

# So many clients and inputs are remembered.
MAX_REMEMBERED = 1024
# A failure puts the doubt about a client a quarter of the way to 1, and a batch that is answered lowers it by a third.
# Who is over SUSPECT_ABOVE is kept apart: that takes two failures of late.
DOUBT_GAIN, DOUBT_DECAY, SUSPECT_ABOVE, FORGET_BELOW = 0.25, 2 / 3, 0.3, 0.05
# How much the last input counts in the share of inputs that fail without warning.
SMOOTHING = 1 / 64
# Two failures without warning within so many seconds raise an alarm, which ends so long after the last one.
ALARM_S = 10.0


class Suspicion:
    """Remembers clients by how often they failed of late, and inputs by their hash alone.

    ``shares`` is the part of the inputs that fail although nothing was known against them, by their standing;
    ``news`` counts how often those who wait are to be sorted again.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.trust, self.origins = Trust(), Origins()
        self.news = 0
        self.shares = dict.fromkeys(Standing, 0.0)
        self._clock = clock
        self._failed_at = self._alarm_until = float("-inf")
        self._raised = False
        self._clients: OrderedDict[Hashable, float] = OrderedDict()
        self._inputs: OrderedDict[int, None] = OrderedDict()

    def alarmed(self) -> bool:
        """Whether somebody sends what makes the model fail, of whom nothing was known before."""
        if self._raised and self._clock() > self._alarm_until:
            self._raised, self.shares[Standing.UNPROVEN] = False, 0.0
            self.trust.demand_as_ever()
            self.origins.clear()
        return self._raised

    def largest_batch(self, call: Call) -> int | None:
        """Return how many inputs may share a batch with one so that every second one is answered; None: any number."""
        if call.standing is Standing.FAILING:
            share = self.origins.share(address_of(call.client))
        else:
            share = self.shares[call.standing]
        return max(1, int(log(2) / share)) if share > SMOOTHING else None

    def of(self, call: Call) -> Standing:
        """With whom a call is to share batches."""
        if self._clients and call.client is not None and self._clients.get(call.client, 0) > SUSPECT_ABOVE:
            return Standing.ALONE
        if self._inputs and any(_hash(item) in self._inputs for item in call.items):
            return Standing.ALONE
        if self._raised and self.alarmed() and not self.trust.proven(call.client):
            return Standing.FAILING if self.origins.failing(address_of(call.client)) else Standing.UNPROVEN
        return Standing.SHARED

    def failed(self, call: Call, item: Any) -> None:
        """Take in that the model failed on an input alone."""
        if call.standing is not Standing.ALONE:
            self.shares[call.standing] += SMOOTHING * (1 - self.shares[call.standing])
            self._alarm(call)
        self._doubt(call.client, item)

    def hung_up(self, call: Call) -> None:
        """Take in that the model failed on a batch with an input of a client that has gone meanwhile."""
        if call.standing is not Standing.ALONE:
            self.shares[call.standing] += SMOOTHING * (1 - self.shares[call.standing])
            self._alarm(call)
        self.trust.failed(call.client)

    def too_large(self, call: Call, index: int) -> None:
        """Take in that an input does not fit into memory."""
        if items := call.items:  # else its client has gone
            if call.standing is not Standing.ALONE:
                self._alarm(call)
            self._doubt(call.client, items[index])

    def answered(self, batch: Batch, items: list[Any]) -> None:
        """Take in that all of a batch were answered."""
        self.trust.answered(batch)
        standing = batch[0][0].standing
        if self.origins and standing in (Standing.UNPROVEN, Standing.FAILING):
            for call, _ in batch:
                self.origins.answered(address_of(call.client))
        if self.shares[standing]:
            self.shares[standing] *= (1 - SMOOTHING) ** len(batch)
        if self._clients:
            for client in {call.client for call, _ in batch} & self._clients.keys():
                self._clients[client] *= DOUBT_DECAY
                if self._clients[client] < FORGET_BELOW:
                    del self._clients[client]
        if self._inputs and standing is Standing.ALONE:
            for item in items:
                self._inputs.pop(_hash(item) or 0, None)

    def _alarm(self, call: Call) -> None:
        now = self._clock()
        if self._raised:
            self.trust.doubt(call.client)
        before = self._raised, self.origins.failing(address := address_of(call.client))
        if address is not None:
            self.origins.failed(address)
        self._raised = self._raised or now - self._failed_at <= ALARM_S
        self._failed_at, self._alarm_until = now, now + ALARM_S
        self.news += before != (self._raised, self.origins.failing(address))

    def _doubt(self, client: Hashable, item: Any) -> None:
        self.trust.failed(client)
        if client is not None:
            self._clients[client] = DOUBT_GAIN + (1 - DOUBT_GAIN) * self._clients.pop(client, 0)
        if (number := _hash(item)) is not None:
            self._inputs[number] = None
            self._inputs.move_to_end(number)
        for memory in (self._clients, self._inputs):
            while len(memory) > MAX_REMEMBERED:
                memory.popitem(last=False)


def _hash(item: Any) -> int | None:
    try:
        return hash(item)
    except Exception:
        return None
