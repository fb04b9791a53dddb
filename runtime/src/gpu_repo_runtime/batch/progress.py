"""How far the job is: a bar on a terminal, a line every 30 s elsewhere."""

import importlib
import sys
import time
from typing import Any

from .. import device
from .messages import say

LINE_SECONDS, DETAIL_SECONDS = 30, 0.5


class Progress:
    """Counts rows; `share`, the part of the input that is read and computed, tells how long the rest takes."""

    def __init__(self, device_name: str) -> None:
        self.rows = self.bad = self.batch_size = 0
        self.share = 0.0
        self._device = device_name
        self._start = time.monotonic()
        self._next = self._start + LINE_SECONDS
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            tqdm = importlib.import_module("tqdm").tqdm
            self._bar, self._next = tqdm(unit=" rows", unit_scale=True, smoothing=0.1, dynamic_ncols=True), 0.0

    def add(self, rows: int) -> None:
        """Count the rows of a batch."""
        self.rows += rows
        now = time.monotonic()
        if self._bar is None and now >= self._next:
            self._next = now + LINE_SECONDS
            say(self.line())
        if self._bar is not None:
            self._bar.update(rows)
            if now >= self._next:
                self._next = now + DETAIL_SECONDS
                self._bar.set_postfix_str(self._details(), refresh=False)
                self._bar.total = self._total() or None

    def line(self) -> str:
        """Return the state in one line."""
        total, rate = self._total(), max(self.rows, 1e-9) / max(1e-9, time.monotonic() - self._start)
        left = time.strftime("%H:%M:%S", time.gmtime((total - self.rows) / rate)) if total > self.rows else ""
        rest = f" of about {total:,}, {left} left" if left else ""
        done = f"{self.rows:,} row{'s' * (self.rows != 1)}{rest}"
        return ", ".join(filter(None, [done, f"{rate:,.0f} rows/s", self._details()]))

    def close(self) -> None:
        """Take the bar away, and write the state."""
        if self._bar is not None:
            self._bar.total = self.rows if self.share == 1 else self._bar.total
            self._bar.refresh()
            self._bar.close()
        say(self.line())

    def _total(self) -> int:
        """Return the rows of this start, guessed from those so far; 0 while nothing is through."""
        return round(self.rows / self.share) if self.share > 0 else 0

    def _details(self) -> str:
        memory = device.memory(self._device)
        used = [f"GPU {memory.used / 2**30:.1f} of {memory.total / 2**30:.0f} GiB"] if memory else []
        return ", ".join([f"{name} {n}" for name, n in (("batch", self.batch_size), ("bad", self.bad)) if n] + used)
