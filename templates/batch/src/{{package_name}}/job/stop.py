"""SIGTERM and Ctrl-C: the current part is finished when the time allows it, otherwise dropped."""

import os
import signal
import time
from types import FrameType

from .exits import Stopped


class Stop:
    """Remembers that a signal came. `grace` is the time in seconds until the process has to be gone."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.signal = 0
        self._deadline = float("inf")

    def listen(self) -> None:
        """Take SIGTERM and SIGINT; a second Ctrl-C ends the process at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

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
