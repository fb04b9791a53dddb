"""A batcher in front of a model whose time is a number: what clients wait for is computed, not measured."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any

from gpu_repo_runtime.serving.batch_planning import Call
from gpu_repo_runtime.serving.batcher import Batcher
from gpu_repo_runtime.serving.errors import ServiceError
from gpu_repo_runtime.serving.metrics import Metrics

Client = tuple[str, Callable[[int], Sequence[Any]], dict[str, Any]]


def device(items: list[Any]) -> float:
    """The seconds of a call on a GPU: most of it is the same for any batch."""
    return 0.006 + 0.0002 * len(items)


class SettlingMetrics(Metrics):
    """Metrics; the clients have sent their next requests when a batch is recorded."""

    def __init__(self, settle: Callable[[], None]) -> None:
        super().__init__(lambda: None)
        self._settle = settle

    def batch_done(self, waits: list[float], seconds: float) -> None:
        super().batch_done(waits, seconds)
        self._settle()


class World:
    """Clients in closed loops, a batcher and a model; seconds pass while the model is called and at no other time.

    ``refuse`` raises for a batch that the model cannot answer. Each answer is checked: it is the right one.
    """

    def __init__(
        self,
        seconds: Callable[[list[Any]], float] = device,
        refuse: Callable[[list[Any]], None] = lambda items: None,
        *,
        limit: int = 32,
        max_queue: int = 1024,
    ) -> None:
        self.now, self._ended = 0.0, False
        self.calls: list[list[Any]] = []
        self.seconds: dict[str, list[float]] = {}
        self.outcomes: dict[str, Counter[str]] = {}
        self.refuse, self._seconds = refuse, seconds
        self.metrics = SettlingMetrics(self._settle)
        self.batcher = Batcher(
            self.metrics, lambda: None, lambda _: None, limit=limit, max_queue=max_queue, clock=lambda: self.now
        )

    def submit(self, items: Sequence[Any], **identity: Any) -> Call:
        """Queue the items of a request."""
        return self.batcher.submit(items, partial(self._predict, identity.get("group")), **identity)

    def _predict(self, group: Hashable, items: list[Any]) -> list[Any]:
        self._settle()
        self.calls.append(items)
        self.now += self._seconds(items)
        self.refuse(items)
        return [{"item": item, "group": group} for item in items]

    def run(self, seconds: float, *clients: Client) -> World:
        """Let clients send requests until so many seconds have passed: each a name, its requests and its identity."""

        async def main() -> None:
            self._loop, self._moved = asyncio.get_running_loop(), asyncio.Event()
            await self.batcher.start(lambda: None)
            try:
                await asyncio.wait_for(asyncio.gather(*(self._client(seconds, *client) for client in clients)), 60)
            finally:
                self._ended = True
                self.batcher.stop()

        asyncio.run(main())
        assert self.batcher.waiting == 0, "nothing is left in the queue"
        return self

    def p50(self, name: str) -> float:
        """Return the median of the seconds that requests of a kind of client took."""
        return statistics.median(self.seconds[name])

    def answered(self, name: str = "client") -> int:
        """Return how many requests of a kind of client were answered."""
        return self.outcomes[name]["answered"]

    async def _client(
        self, end: float, name: str, request: Callable[[int], Sequence[Any]], identity: dict[str, Any]
    ) -> None:
        seconds, outcomes = self.seconds.setdefault(name, []), self.outcomes.setdefault(name, Counter())
        for number in itertools.count():
            if self.now >= end:
                return
            started, items = self.now, request(number)
            try:
                call = self.submit(items, **identity)
                assert await call.done == [{"item": item, "group": identity.get("group")} for item in items]
                outcomes["answered"] += 1
            except ServiceError as error:
                outcomes[error.code] += 1
                if error.code == "device_lost":
                    return
                if error.retry_after:  # the queue is full
                    await self._moved.wait()
                    continue
            seconds.append(self.now - started)

    def _settle(self) -> None:
        """Let the event loop answer and the clients send their next requests."""

        async def turns() -> None:
            self._moved.set()  # who was refused comes again
            self._moved.clear()
            for _ in range(8):
                await asyncio.sleep(0)

        if not self._ended:
            with suppress(CancelledError):  # the clients have all gone meanwhile
                asyncio.run_coroutine_threadsafe(turns(), self._loop).result(10)
