"""The Prometheus metrics of the service: every name starts with ``service_``."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from . import logs

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
GPU_MEMORY = {
    "service_gpu_memory_used_bytes": "GPU memory of this process",
    "service_gpu_memory_peak_bytes": "Largest GPU memory of this process so far",
    "service_gpu_memory_free_bytes": "Free GPU memory",
    "service_gpu_memory_total_bytes": "Memory of the GPU",
}


class Metrics:
    """All metrics, in a separate registry, so that a test process can have several services.

    ``memory`` returns device.Memory, or None on a CPU; it is called at each scrape.
    """

    def __init__(self, memory: Callable[[], Any]) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(REGISTRY)  # the owner's, and those of the process

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(name, about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(name, about, buckets=buckets, registry=registry)

        self.requests = counter("service_requests", "Requests by route and HTTP status", "route", "status")
        self._answers: dict[tuple[str, int], Counter] = {}
        self.rejected = counter("service_rejected", "Requests rejected or given up, by reason", "reason")
        self.request_seconds = histogram("service_request_seconds", "From request to answer of predictions with 200")
        self.queue_wait_seconds = histogram("service_queue_wait_seconds", "Time an input waits for the model")
        self.model_seconds = histogram("service_model_seconds", "Time of one call of the model")
        self.batch_size = histogram("service_batch_size", "Inputs in one call of the model", SIZES)
        self.load_seconds = gauge("service_model_load_seconds", "Time to load and warm the model")
        self.ready = gauge("service_ready", "1 while /readyz answers 200")
        self.info = gauge("service_info", "Always 1; what runs", "version", "image", "device", "name", "driver", "cuda")
        self.weights = gauge("service_weights", "Always 1; the loaded weights", "name", "revision", "digest")
        self.queue_depth = gauge("service_queue_depth", "Inputs that wait for the model now")
        self.batch_limit = gauge("service_batch_limit", "Largest batch the model gets now")
        self.memory_shortages = counter("service_memory_shortages", "Batches that did not fit into memory")
        registry.register(Live(memory))

    def answered(self, route: str, status: int) -> None:
        """Count an answer."""
        counter = self._answers.get((route, status))
        if counter is None:  # finding it by its labels takes longer than counting
            counter = self._answers[route, status] = self.requests.labels(route, str(status))
        counter.inc()

    def batch_done(self, waits: list[float], seconds: float) -> None:
        """Count one call of the model, and the seconds that each of its inputs waited for it."""
        self.model_seconds.observe(seconds)
        self.batch_size.observe(len(waits))
        for wait in waits:
            self.queue_wait_seconds.observe(wait)


class Live(Collector):
    """What is counted elsewhere. GPU memory does not appear on a CPU or on a lost device."""

    def __init__(self, memory: Callable[[], Any]) -> None:
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        about = "Lines of the log that were dropped because they were not read in time"
        yield CounterMetricFamily("service_log_dropped", about, sum(handler.dropped for handler in logs.handlers))
        try:
            memory = self._memory()
        except Exception:  # a lost device fails here too; /livez shows it
            return
        for name, about in GPU_MEMORY.items() if memory else ():
            yield GaugeMetricFamily(name, about, getattr(memory, name.split("_")[-2]))
