"""How far the job is: a bar on a terminal, a line every 30 s elsewhere, metrics for Prometheus."""

import importlib
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
DETAIL_SECONDS = 0.5


class Metrics:
    """Gauges in a file for the node exporter's textfile collector, or at a push gateway; or nowhere.

    shard: the label of all values. numbers: of this process among several, each of which has a file of its own.
    """

    def __init__(self, file: str | None, gateway: str | None, shard: str, numbers: Sequence[int] = ()) -> None:
        path = Path(file).absolute() if file else None
        if path and (path.is_dir() or not path.parent.is_dir()):
            raise BadConfiguration(f"--metrics-file {file}: name a file, for example job.prom, in a folder that exists")
        self._file = path and str(path.with_stem("-".join([path.stem, *map(str, numbers)])))
        self._gateway, self._shard = gateway, shard
        # Imported only where it is needed.
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
        try:
            if self._file:
                prometheus.write_to_textfile(self._file, self._registry)
            if self._gateway:
                shard = {"shard": self._shard}
                prometheus.push_to_gateway(self._gateway, "batch", self._registry, shard, timeout=5)
        except (OSError, ValueError) as error:
            say(f"the metrics could not be written: {error}")


class Progress:
    """Counts rows; `share`, the part of the input that is read and computed, tells how long the rest takes."""

    def __init__(self, metrics: Metrics, device_name: str) -> None:
        self.rows = self.bad = self.batch_size = 0
        self.share = 0.0
        self._metrics, self._device = metrics, device_name
        self._start = time.monotonic()
        self._next_line, self._next_details = self._start + LINE_SECONDS, 0.0
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            tqdm = importlib.import_module("tqdm").tqdm
            self._bar = tqdm(unit=" rows", unit_scale=True, smoothing=0.1, dynamic_ncols=True)

    def add(self, rows: int) -> None:
        """Count the rows of a batch."""
        self.rows += rows
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(rows)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            say(self.line())
        if now >= self._next_details:
            self._next_details = now + DETAIL_SECONDS
            if self._bar is not None:
                self._bar.set_postfix_str(self._details(), refresh=False)
                self._bar.total = self._total() or None
            self._metrics.write(self._values())

    def line(self) -> str:
        """Return the state in one line."""
        total, rate = self._total(), self._rate()
        left = time.strftime("%H:%M:%S", time.gmtime((total - self.rows) / rate)) if total > self.rows else ""
        rest = f" of about {total:,}, {left} left" if left else ""
        return f"{self.rows:,} rows{rest}, {rate:,.0f} rows/s, {self._details()}"

    def close(self, done: bool) -> None:
        """Take the bar away and write the last metrics."""
        if self._bar is not None:
            self._bar.total = self.rows if done else self._bar.total
            self._bar.refresh()
            self._bar.close()
        self._metrics.write(self._values() | {"done": float(done)}, now=True)

    def _values(self) -> dict[str, float]:
        values: dict[str, float] = {"rows": self.rows, "bad_rows": self.bad, "rows_per_second": self._rate()}
        values |= {"batch_size": self.batch_size, "share_done": self.share}
        memory = device.memory(self._device)
        return values | ({"gpu_memory_used_bytes": memory.used, "gpu_memory_peak_bytes": memory.peak} if memory else {})

    def _rate(self) -> float:
        return max(self.rows, 1e-9) / max(1e-9, time.monotonic() - self._start)

    def _total(self) -> int:
        """Return the rows of this start, guessed from those so far; 0 while nothing is through."""
        return round(self.rows / self.share) if self.share > 0 else 0

    def _details(self) -> str:
        memory = device.memory(self._device)
        used = [f"GPU {memory.used / 2**30:.1f} of {memory.total / 2**30:.0f} GiB"] if memory else []
        return ", ".join([f"batch {self.batch_size}", *([f"bad {self.bad}"] if self.bad else []), *used])
