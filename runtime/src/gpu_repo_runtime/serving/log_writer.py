"""Lines of the log, written by a separate thread.

The reader of standard output may stop: a full disk, a stalled log shipper, Ctrl-S in a terminal. Then lines wait in
memory up to a limit, further ones are dropped and counted, and requests are answered.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

MAX_WAITING_CHARACTERS = 4_000_000
# Lines that come together are written together: waking the thread for each would cost more.
GATHER_SECONDS = 0.01


class LogWriter:
    """Writes to the file descriptor ``target``; ``put`` never waits. ``as_line`` formats the writer's own warning."""

    def __init__(self, target: int, as_line: Callable[[str], str]) -> None:
        self.dropped = 0
        self.as_line = as_line
        self._target = target
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._reported = self.dropped
        self._put, self._written = 0, 0  # characters; the second is the thread's own
        self._lock = threading.RLock()  # a signal may come while a line is put
        self._lines: list[str] = []
        self._asleep, self._wake = True, SimpleQueue[None]()
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def put(self, text: str) -> None:
        """Write ``text`` later, or drop it if too much waits."""
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
            missing = self.dropped - self._reported
            if missing:
                line = self.as_line(f"{missing} lines of the log were dropped here: they were not read in time")
                self._reported += missing * self._write(line)

    def _write(self, text: str) -> bool:
        rest = text.encode(errors="backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:  # another process set the file to non-blocking
                time.sleep(GATHER_SECONDS)
            except OSError:  # the reader has gone, or the disk is full
                return False
        return True


class Dropped(Collector):
    """The number of dropped lines as a metric."""

    def __init__(self, writers: list[LogWriter]) -> None:
        self._writers = writers

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        about = "Lines of the log that were dropped because they were not read in time"
        yield CounterMetricFamily("service_log_dropped", about, sum(writer.dropped for writer in self._writers))
