"""Lines on their way out of the process, written by a thread of their own.

Whoever reads standard output may stop: a full disk, a stalled log shipper, Ctrl-S in a terminal. A program that writes
by itself then stands still in the middle of a request. Here lines wait in memory, so many and no more; what does not
fit is dropped and counted.
"""

import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

MAX_WAITING_CHARACTERS = 4_000_000
# Lines that come together are written together: for each line a thread would have to be woken.
GATHER_SECONDS = 0.01


def in_plain_words(message: str) -> str:
    """Return a message as a line."""
    return f"{message}\n"


class Writer:
    """Writes to the file descriptor ``target``; ``put`` never waits. ``as_line`` writes what it has to say itself."""

    as_line: Callable[[str], str] = staticmethod(in_plain_words)

    def __init__(self, target: int) -> None:
        self.dropped = 0
        self._target = target
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._told = self.dropped
        self._put, self._written = 0, 0  # characters; the second is the thread's own
        self._lock = threading.RLock()  # a signal may come while a line is put
        self._lines: list[str] = []
        self._asleep, self._wake = True, SimpleQueue[None]()
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def put(self, text: str) -> None:
        """Write ``text`` when its turn comes, or drop it when too much waits."""
        with self._lock:
            if self._put - self._written > MAX_WAITING_CHARACTERS:
                self.dropped += 1
                return
            self._put += len(text)
            self._lines.append(text)
            if self._asleep:
                self._asleep = False
                self._wake.put(None)

    def flush(self, seconds: float) -> None:
        """Wait until everything is written, but no longer than ``seconds``."""
        end = time.monotonic() + seconds
        while self._written < self._put and time.monotonic() < end:
            time.sleep(0.002)

    def _work(self) -> None:
        while True:
            self._wake.get()
            time.sleep(GATHER_SECONDS)
            with self._lock:
                lines, self._lines, self._asleep = self._lines, [], True
            text = "".join(lines)
            if not self._write(text):
                self.dropped += text.count("\n") or 1
            self._written += len(text)
            missing = self.dropped - self._told
            if missing:
                said = self.as_line(f"{missing} lines of the log were dropped here: nobody read them in time")
                # The end of what was printed last may be among them.
                self._told += missing * self._write(said if text.endswith("\n") else f"\n{said}")

    def _write(self, text: str) -> bool:
        rest = text.encode(errors="backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:  # somebody who has the same file wants it so
                time.sleep(GATHER_SECONDS)
            except OSError:  # the reader has gone, or the disk is full
                return False
        return True


class Stream(io.TextIOBase):
    """In the place of ``sys.stdout`` or ``sys.stderr``: what the model prints does not wait for a reader either."""

    def __init__(self, writer: Writer, target: int) -> None:
        self._writer, self._target = writer, target
        self.buffer = _Bytes(self)  # many a library writes bytes

    encoding = "utf-8"

    def reconfigure(self, **_: object) -> None:
        """Do nothing: the encoding stays, and no line waits here."""

    def write(self, text: str) -> int:
        """Hand ``text`` over as it is."""
        self._writer.put(text)
        return len(text)

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Tell whether a person reads it."""
        return os.isatty(self._target)

    def fileno(self) -> int:
        """The file descriptor, for those who go past this."""
        return self._target


class _Bytes(io.RawIOBase):
    """The same for bytes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode(errors="backslashreplace"))
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class Dropped(Collector):
    """How much of the log was dropped, as a metric."""

    def __init__(self, writers: list[Writer]) -> None:
        self._writers = writers

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        about = "Lines of the log that were dropped because nobody read them in time"
        yield CounterMetricFamily("service_log_dropped", about, sum(writer.dropped for writer in self._writers))
