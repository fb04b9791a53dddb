"""SIGTERM and Ctrl-C: the current part is finished when the time allows it, otherwise dropped."""

import os
import signal
import time
from types import FrameType
from typing import Self

from .exits import Stopped


class Stop:
    """Remembers, in a with block, that a signal came. `grace`: seconds from then until the process has to be gone."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.signal = 0
        self._deadline = float("inf")

    def __enter__(self) -> Self:
        """Take SIGTERM and SIGINT; a second Ctrl-C ends the process at once."""
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def between_parts(self) -> None:
        """Raise Stopped when a signal came."""
        if self.signal:
            raise Stopped(self.signal)

    def between_batches(self, seconds_left: float) -> None:
        """Raise Stopped when a signal came and the rest of the part, `seconds_left`, does not fit into the grace."""
        if self.signal and time.monotonic() + seconds_left > self._deadline:
            raise Stopped(self.signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT == number:
            os._exit(128 + number)
        if not self.signal:
            self.signal = number
            self._deadline = time.monotonic() + self.grace
