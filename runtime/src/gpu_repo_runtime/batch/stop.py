"""SIGTERM and Ctrl-C: the current part is finished when the time allows it, otherwise dropped."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from .exits import SIGNAL, Stopped
from .messages import say


class Stop:
    """Remembers, in a with block, that a signal came. `grace`: seconds from then until the process has to be gone.

    A thread sees to that, since no signal reaches Python code while the main thread waits in a library. To end at any
    moment is safe: what a kill leaves behind is what the next start goes on from.
    """

    def __init__(self, grace: float) -> None:
        self.grace, self.signal = grace, 0
        self._deadline = float("inf")
        self._free = ""

    def __enter__(self) -> Self:
        """Take SIGTERM and SIGINT; a second Ctrl-C ends the process at once."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._see_to_it, name="stop", daemon=True)
        self._thread.start()
        return self

    def again(self) -> None:
        """Take the signals again, where the model or a library of it has taken them away."""
        for number in self._before:
            if signal.getsignal(number) != self._on_signal:
                signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._over.set()
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    @contextmanager
    def at_once(self, doing: str) -> Iterator[None]:
        """Let a signal end the process at once in this block, in which nothing is begun that could be finished."""
        self._free = doing
        try:
            yield
        finally:
            self._free = ""
        self.between_parts()

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
            os._exit(SIGNAL + number)
        if not self.signal:
            self.signal = number
            self._deadline = time.monotonic() + self.grace

    def _see_to_it(self) -> None:
        """End the process when the signal's time is over and nobody else has."""
        number = 0
        while number not in self._before:
            read = os.read(self._reader, 1)
            if not read:
                return
            number = read[0]
        deadline = time.monotonic() + self.grace
        while not self._over.wait(0.05):
            if self._free:
                self._end(number, f"stopped while {self._free}")
            if time.monotonic() > deadline:
                self._end(number, f"stopped: what was at work did not end in the {self.grace:g} s of --grace")

    def _end(self, number: int, text: str) -> None:
        say(f"{text}; start the same command again to go on")
        os._exit(SIGNAL + number)
