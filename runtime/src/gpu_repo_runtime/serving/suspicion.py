"""Whose inputs have made the model fail, so that they are kept apart from the inputs of others."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from .call import Batch, Call

# So many clients and inputs are remembered.
MOST = 1024
# A failure puts the doubt about a client half way to 1, and a batch that is answered lowers it by a third. Who is over
# SUSPECT is kept apart.
SUSPECT, FALL, LEAST = 0.3, 2 / 3, 0.05


class Suspicion:
    """Remembers clients by how often they failed of late, and inputs by their hash alone."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Hashable, float] = OrderedDict()
        self._inputs: OrderedDict[int, None] = OrderedDict()

    def of(self, call: Call) -> bool:
        """Whether a call is to share no batch with others."""
        if self._clients and call.client is not None and self._clients.get(call.client, 0) > SUSPECT:
            return True
        return bool(self._inputs) and any(_hash(item) in self._inputs for item in call.items)

    def failed(self, client: Hashable, item: Any) -> None:
        """Take in that the model failed on an input alone."""
        if client is not None:
            self._clients[client] = 0.5 + 0.5 * self._clients.pop(client, 0)
        if (number := _hash(item)) is not None:
            self._inputs[number] = None
            self._inputs.move_to_end(number)
        for memory in (self._clients, self._inputs):
            while len(memory) > MOST:
                memory.popitem(last=False)

    def answered(self, batch: Batch, items: list[Any]) -> None:
        """Take in that all of a batch were answered."""
        if self._clients:
            for client in {call.client for call, _ in batch} & self._clients.keys():
                self._clients[client] *= FALL
                if self._clients[client] < LEAST:
                    del self._clients[client]
        if self._inputs and batch[0][0].quarantined:
            for item in items:
                self._inputs.pop(_hash(item) or 0, None)


def _hash(item: Any) -> int | None:
    try:
        return hash(item)
    except Exception:
        return None
