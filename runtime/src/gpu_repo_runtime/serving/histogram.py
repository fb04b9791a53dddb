"""A histogram for Prometheus that takes many values at once; prometheus_client's takes a lock or two for each."""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import metrics
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString


class Histogram(Collector):
    """Shown like prometheus_client's without labels."""

    def __init__(self, name: str, about: str, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._about, self._bounds = name, about, [float(bound) for bound in buckets]
        self._counts, self._sum = [0] * (len(buckets) + 1), 0.0
        self._lock, self._created = threading.Lock(), time.time()
        registry.register(self)

    def observe(self, value: float) -> None:
        """Take a value in."""
        self.observe_all((value,))

    def observe_all(self, values: Iterable[float]) -> None:
        """Take values in."""
        with self._lock:
            for value in values:
                self._counts[bisect_left(self._bounds, value)] += 1
                self._sum += value

    def collect(self) -> Iterator[Metric]:
        """The histogram."""
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        family = HistogramMetricFamily(self._name, self._about)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family.add_metric([], list(zip(bounds, counts, strict=True)), total)
        if getattr(metrics, "_use_created", True):
            family.add_sample(f"{self._name}_created", {}, self._created)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Its name, which no other metric may have."""
        yield HistogramMetricFamily(self._name, self._about)
