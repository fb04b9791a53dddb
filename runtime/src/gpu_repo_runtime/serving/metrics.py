"""The Prometheus metrics of the service. Every name starts with ``service_``; ``/metrics`` shows them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..weights import Lock
from .call import Batch

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """All metrics, in a separate registry, so that a test process can have several services."""

    def __init__(
        self,
        waiting: Callable[[], int],
        limit: Callable[[], int],
        shortages: Callable[[], int],
        memory: Callable[[], Any],
    ) -> None:
        self.registry = registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self.requests = Counter(
            "service_requests", "Requests by route and HTTP status", ["route", "status"], registry=registry
        )
        self._answers: dict[tuple[str, int], Counter] = {}
        self.rejected = Counter(
            "service_rejected", "Requests rejected or given up, by reason", ["reason"], registry=registry
        )
        self.request_seconds = Histogram(
            "service_request_seconds",
            "Time from request to answer of predictions with status 200",
            buckets=SECONDS,
            registry=registry,
        )
        self.queue_wait_seconds = Histogram(
            "service_queue_wait_seconds", "Time an input waits for the model", buckets=SECONDS, registry=registry
        )
        self.model_seconds = Histogram(
            "service_model_seconds", "Time of one call of the model", buckets=SECONDS, registry=registry
        )
        self.batch_size = Histogram(
            "service_batch_size", "Inputs in one call of the model", buckets=SIZES, registry=registry
        )
        self.load_seconds = Gauge("service_model_load_seconds", "Time to load and warm the model", registry=registry)
        self.ready = Gauge("service_ready", "1 while /readyz answers 200", registry=registry)
        self.info = Gauge(
            "service_info",
            "Always 1; what runs here",
            ["version", "image", "device", "name", "driver", "cuda"],
            registry=registry,
        )
        self._weights = Gauge(
            "service_weights",
            "Always 1; the weights of weights.lock that the model was loaded with",
            ["name", "revision", "digest"],
            registry=registry,
        )
        Gauge("service_queue_depth", "Inputs that wait for the model now", registry=registry).set_function(waiting)
        Gauge("service_batch_limit", "Largest batch the model gets now", registry=registry).set_function(limit)
        registry.register(Shortages(shortages))
        registry.register(GpuMemory(memory))

    def loaded(self, lock: Lock) -> None:
        """Show the weights of the model."""
        for one in lock.weights:
            self._weights.labels(one.name, one.revision, one.digest).set(1)

    def answered(self, route: str, status: int) -> None:
        """Count an answer."""
        counter = self._answers.get((route, status))
        if counter is None:  # finding it by its labels takes longer than counting
            counter = self._answers[route, status] = self.requests.labels(route, str(status))
        counter.inc()

    def batch_done(self, batch: Batch, seconds: float) -> None:
        """Count one call of the model that took ``seconds`` and ended now."""
        started = time.perf_counter() - seconds
        self.model_seconds.observe(seconds)
        self.batch_size.observe(len(batch))
        for call, _ in batch:
            self.queue_wait_seconds.observe(started - call.queued_at)


class Shortages(Collector):
    """How often a batch was too large for the memory."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """The counter."""
        text = "Batches that did not fit into memory and were made smaller"
        yield CounterMetricFamily("service_memory_shortages", text, self._count())


class GpuMemory(Collector):
    """GPU memory, read at each scrape; nothing on a CPU or on a lost device."""

    def __init__(self, memory: Callable[[], Any]) -> None:
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        """The gauges, or nothing."""
        try:
            memory = self._memory()
        except Exception:  # a lost device fails here too; /livez shows it
            return
        if memory is None:
            return
        for name, help_text, value in (
            ("service_gpu_memory_used_bytes", "GPU memory of this process", memory.used),
            ("service_gpu_memory_peak_bytes", "Largest GPU memory of this process so far", memory.peak),
            ("service_gpu_memory_free_bytes", "Free GPU memory", memory.free),
            ("service_gpu_memory_total_bytes", "Memory of the GPU", memory.total),
        ):
            yield GaugeMetricFamily(name, help_text, value)
