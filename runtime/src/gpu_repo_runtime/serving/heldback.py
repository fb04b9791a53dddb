"""Who fails is told when the others have had their time.

A client on whose input the model fails costs the others a search, and sends the next such input as soon as it is told.
Where it cannot be told from the others, as behind a gateway, only the time of its answer is left to slow it down.
"""

import asyncio
from collections import OrderedDict

from .call import Call
from .errors import ServiceError

# The others get so many seconds of the model for one that a failure has cost.
TIMES_THE_COST = 3.0
# No answer is held for longer, nor for more than so many times what it waits for, as when the others have left.
MOST_S, PATIENCE = 2.0, 4.0
# Nor are more held than wait meanwhile: where many fail now and then, most are to be served.
MOST_HELD = 16


class HeldBack:
    """Errors that are there and not told yet, in the order in which they came; all is called in the event loop."""

    def __init__(self) -> None:
        self._held: OrderedDict[Call, tuple[ServiceError, float, asyncio.TimerHandle]] = OrderedDict()
        self._paid = self._owed = 0.0  # seconds of the model since the start
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, call: Call, error: ServiceError, cost: float, waiting: int) -> None:
        """Tell an error of which the search took ``cost`` seconds of the model, beside so many calls that wait."""
        most = 0 if self._closed else min(MOST_HELD, waiting)
        while len(self._held) >= max(1, most):
            self.release(next(iter(self._held)))
        if not most:
            return _tell(call, error)
        self._owed = max(self._paid, self._owed) + TIMES_THE_COST * cost
        seconds = min(MOST_S, PATIENCE * (self._owed - self._paid))
        timer = asyncio.get_running_loop().call_later(seconds, self.release, call)
        self._held[call] = error, self._owed, timer

    def pay(self, seconds: float) -> None:
        """Take in that the others had so many seconds of the model."""
        self._paid += seconds
        while self._held and (call := next(iter(self._held))) and self._held[call][1] <= self._paid:
            self.release(call)

    def release(self, call: Call) -> None:
        """Tell the error of a call, if it is held."""
        if held := self._held.pop(call, None):
            error, _, timer = held
            timer.cancel()
            _tell(call, error)

    def close(self) -> None:
        """Tell all, and hold nothing more."""
        self._closed = True
        for call in list(self._held):
            self.release(call)


def _tell(call: Call, error: ServiceError) -> None:
    if not call.done.done():
        call.done.set_exception(error)
