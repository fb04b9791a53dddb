"""How far the job is: a bar on a terminal, a line every 30 s elsewhere, metrics for Prometheus."""

import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import device
from .exits import BadConfiguration
from .messages import say

LINE_SECONDS = 30
METRICS_SECONDS = 15


class Metrics:
    """Gauges in a file for the node exporter's textfile collector, or at a push gateway; or nowhere.

    shard: the label of all values. numbers: of this process among several, each of which has a file of its own.
    """

    def __init__(self, file: str | None, gateway: str | None, shard: str, numbers: Sequence[int] = ()) -> None:
        if file and not Path(file).absolute().parent.is_dir():
            raise BadConfiguration(f"--metrics-file {file}: there is no such folder")
        if file and not Path(file).name:
            raise BadConfiguration(f"--metrics-file {file}: name a file, for example job.prom")
        self._file, self._gateway, self._shard = file and _numbered(file, numbers), gateway, shard
        # The client would put a plain file in the place of a device or a pipe.
        self._device = self._file is not None and Path(self._file).exists() and not Path(self._file).is_file()
        self._prometheus = importlib.import_module("prometheus_client") if file or gateway else None
        self._registry = self._prometheus and self._prometheus.CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._next = 0.0

    def write(self, values: dict[str, float], now: bool = False) -> None:
        """Write the values, but not before METRICS_SECONDS are over, unless `now`. What fails does not end the job."""
        prometheus = self._prometheus
        if prometheus is None or (time.monotonic() < self._next and not now):
            return
        self._next = time.monotonic() + METRICS_SECONDS
        for name, value in values.items():
            if name not in self._gauges:
                words = name.replace("_", " ")
                self._gauges[name] = prometheus.Gauge(f"job_{name}", words, ["shard"], registry=self._registry)
            self._gauges[name].labels(self._shard).set(value)
        if self._file:
            try:
                if self._device:
                    with open(os.open(self._file, os.O_WRONLY | os.O_NONBLOCK), "wb") as device_file:
                        device_file.write(prometheus.generate_latest(self._registry))
                else:
                    prometheus.write_to_textfile(self._file, self._registry)
            except OSError as error:
                say(f"the metrics could not be written: {error}")
        if self._gateway:
            try:
                shard = {"shard": self._shard}
                prometheus.push_to_gateway(self._gateway, "batch", self._registry, shard, timeout=5)
            except (OSError, ValueError) as error:
                say(f"the metrics did not reach the push gateway: {error}")


class Progress:
    """Counts rows; the share of the input that is through tells how many there will be and how long it takes."""

    def __init__(self, metrics: Metrics, device_name: str) -> None:
        self.rows = 0
        self.bad = 0
        self.batch_size = 0
        self.share = self.share_before = 0.0
        self._metrics = metrics
        self._device = device_name
        self._start = time.monotonic()
        self._next_line = self._start + LINE_SECONDS
        self._next_details = 0.0
        self._bar = _bar()

    def add(self, rows: int) -> None:
        """Count the rows of a batch."""
        self.rows += rows
        if self._bar is not None:
            self._bar.update(rows)
        now = time.monotonic()
        if self._bar is None and now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            say(self.line())
        if now >= self._next_details:
            self._next_details = now + 0.5
            if self._bar is not None:
                self._bar.set_postfix(self._details(), refresh=False)
                self._bar.total = self._total() or None
            self._metrics.write(self.values())

    def through(self, share: float) -> None:
        """Say that this share of the whole input, 0 to 1, is read and computed."""
        self.share = share

    def rate(self) -> float:
        """Return rows per second since the start."""
        return self.rows / max(1e-9, time.monotonic() - self._start)

    def line(self) -> str:
        """Return the state in one line."""
        total = self._total()
        rest = f" of about {total:,}, {_clock((total - self.rows) / self.rate())} left" if total > self.rows else ""
        details = ", ".join(f"{key} {value}" for key, value in self._details().items())
        return f"{self.rows:,} rows{rest}, {self.rate():,.0f} rows/s, {details}"

    def values(self) -> dict[str, float]:
        """Return the values of the metrics."""
        values: dict[str, float] = {"rows": self.rows, "bad_rows": self.bad, "rows_per_second": self.rate()}
        values |= {"batch_size": self.batch_size, "share_done": self.share}
        memory = device.memory(self._device)
        return values | ({"gpu_memory_used_bytes": memory.used, "gpu_memory_peak_bytes": memory.peak} if memory else {})

    def close(self, done: bool) -> None:
        """Take the bar away and write the last metrics."""
        if self._bar is not None:
            self._bar.total = self.rows if done else self._bar.total
            self._bar.refresh()
            self._bar.close()
        self._metrics.write(self.values() | {"done": float(done)}, now=True)

    def _total(self) -> int:
        """Return the rows of this start, guessed from those so far; 0 while nothing is through."""
        computed = self.share - self.share_before
        return round(self.rows * (1 - self.share_before) / computed) if computed > 0 else 0

    def _details(self) -> dict[str, str]:
        memory = device.memory(self._device)
        details = {"batch": str(self.batch_size)}
        if self.bad:
            details["bad"] = str(self.bad)
        return details | ({"GPU": f"{memory.used / 2**30:.1f} of {memory.total / 2**30:.0f} GiB"} if memory else {})


def _bar() -> Any:
    """Return a bar, None where the standard error is not a terminal. What draws it is not imported for nothing."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    from tqdm import tqdm

    return tqdm(unit=" rows", unit_scale=True, smoothing=0.1, dynamic_ncols=True)


def _numbered(file: str, numbers: Sequence[int]) -> str:
    path = Path(file)
    return str(path.with_stem("-".join([path.stem, *map(str, numbers)])))


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
