"""Whose inputs have made the model fail, so that they are kept apart from the inputs of others."""

from collections import OrderedDict
from collections.abc import Hashable
from math import log
from typing import Any

from .call import Batch, Call

# So many clients and inputs are remembered.
MAX_REMEMBERED = 1024
# A failure puts the doubt about a client a quarter of the way to 1, and a batch that is answered lowers it by a third.
# Who is over SUSPECT_ABOVE is kept apart: that takes two failures of late.
DOUBT_GAIN, DOUBT_DECAY, SUSPECT_ABOVE, FORGET_BELOW = 0.25, 2 / 3, 0.3, 0.05


# How much the last input counts in the share of inputs that fail without warning.
SMOOTHING = 1 / 64


class Suspicion:
    """Remembers clients by how often they failed of late, and inputs by their hash alone.

    ``share`` is the part of the inputs that fail although nothing was known against them.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._clients: OrderedDict[Hashable, float] = OrderedDict()
        self._inputs: OrderedDict[int, None] = OrderedDict()

    def largest_batch(self) -> int | None:
        """Return how many inputs may share a batch so that every second one is answered; None: any number."""
        return max(1, int(log(2) / self.share)) if self.share > SMOOTHING else None

    def of(self, call: Call) -> bool:
        """Whether a call is to share no batch with others."""
        if self._clients and call.client is not None and self._clients.get(call.client, 0) > SUSPECT_ABOVE:
            return True
        return bool(self._inputs) and any(_hash(item) in self._inputs for item in call.items)

    def failed(self, call: Call, item: Any) -> None:
        """Take in that the model failed on an input alone."""
        if not call.quarantined:
            self.share += SMOOTHING * (1 - self.share)
        self._doubt(call.client, item)

    def too_large(self, call: Call, index: int) -> None:
        """Take in that an input does not fit into memory."""
        if items := call.items:  # else its client has gone
            self._doubt(call.client, items[index])

    def answered(self, batch: Batch, items: list[Any]) -> None:
        """Take in that all of a batch were answered."""
        if self.share and not batch[0][0].quarantined:
            self.share *= (1 - SMOOTHING) ** len(batch)
        if self._clients:
            for client in {call.client for call, _ in batch} & self._clients.keys():
                self._clients[client] *= DOUBT_DECAY
                if self._clients[client] < FORGET_BELOW:
                    del self._clients[client]
        if self._inputs and batch[0][0].quarantined:
            for item in items:
                self._inputs.pop(_hash(item) or 0, None)

    def _doubt(self, client: Hashable, item: Any) -> None:
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
