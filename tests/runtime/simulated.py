"""A batcher in front of a model whose time is a number: what clients wait for is computed, not measured."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from gpu_repo_runtime.serving.batcher import Batcher
from gpu_repo_runtime.serving.call import Call
from gpu_repo_runtime.serving.errors import (
    ClientGone,
    DeviceLost,
    InputTooLarge,
    OutOfMemory,
    PredictionFailed,
    ServiceError,
)

Predict = Callable[[list[Any]], list[Any]]
About = dict[str, Any] | Callable[[int], dict[str, Any]]
DEVICE: Callable[[list[Any]], float] = lambda items: 0.006 + 0.0002 * len(items)  # noqa: E731


class World:
    """Clients in closed loops, a batcher and a model; seconds pass while the model is called and at no other time."""

    def __init__(
        self,
        seconds: Callable[[list[Any]], float] = DEVICE,
        predict: Predict = lambda items: [{"item": item} for item in items],
        *,
        limit: int = 32,
        max_queue: int = 1024,
    ) -> None:
        self.now, self._ended = 0.0, False
        self.calls: list[list[Any]] = []
        self.seconds: dict[str, list[float]] = {}
        self.outcomes: dict[str, Counter[str]] = {}
        self._seconds, self._model = seconds, predict
        self._impatient: list[tuple[float, Call]] = []
        self.batcher = Batcher(self, limit=limit, max_queue=max_queue, clock=lambda: self.now)

    def predict(self, items: list[Any], group: Hashable) -> list[Any]:
        self._settle()
        self.calls.append(items)
        self.now += self._seconds(items)
        if self._impatient:
            self._settle()
        return self._model(items)

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        if isinstance(error, MemoryError):
            return OutOfMemory("too little memory")
        if isinstance(error, RuntimeError) and "lost" in str(error):
            return DeviceLost(str(error))
        return PredictionFailed(f"{index}: {type(error).__name__}")

    def too_large(self, index: int) -> ServiceError:
        return InputTooLarge(f"{index}")

    def release(self) -> None: ...

    def batch_done(self, batch: Any, seconds: float) -> None:
        self._settle()

    def device_lost(self, error: DeviceLost) -> None: ...

    def run(self, seconds: float, *clients: tuple[str, Callable[[int], Sequence[Any]], About]) -> World:
        """Let clients send requests until so many seconds have passed: each a name, its requests and its identity.

        The last one may be a function, for one that comes on ever new connections, and have the ``patience``, in
        seconds, after which a client hangs up.
        """

        async def main() -> None:
            self._loop, self._moved = asyncio.get_running_loop(), asyncio.Event()
            self.batcher.start()
            try:
                await asyncio.wait_for(asyncio.gather(*(self._client(seconds, *client) for client in clients)), 60)
            finally:
                self._ended = True
                self.batcher.stop()

        asyncio.run(main())
        assert self.batcher.queue.depth == 0
        return self

    def p50(self, name: str) -> float:
        """Return the median of the seconds that requests of a kind of client took."""
        return statistics.median(self.seconds[name])

    def answered(self, name: str) -> int:
        """Return how many requests of a kind of client were answered."""
        return self.outcomes[name]["answered"]

    async def _client(self, end: float, name: str, request: Callable[[int], Sequence[Any]], about: About) -> None:
        seconds, outcomes = self.seconds.setdefault(name, []), self.outcomes.setdefault(name, Counter())
        for number in itertools.count():
            if self.now >= end:
                return
            started = self.now
            try:
                identity = dict(about(number) if callable(about) else about)
                patience = identity.pop("patience", None)
                call = self.batcher.submit(request(number), **identity)
                if patience:
                    self._impatient.append((started + patience, call))
                await call.done
                outcomes["answered"] += 1
            except ServiceError as error:
                outcomes[error.code] += 1
                if error.code == "queue_full":
                    await self._moved.wait()
                    continue
            seconds.append(self.now - started)

    def _settle(self) -> None:
        """Let the event loop answer and the clients send their next requests."""

        async def turns() -> None:
            self._moved.set()  # who was refused comes again
            self._moved.clear()
            for due, call in self._impatient:
                if due <= self.now:
                    self.batcher.drop(call, ClientGone("the client hung up"))
            self._impatient = [(due, call) for due, call in self._impatient if due > self.now and not call.done.done()]
            for _ in range(8):
                await asyncio.sleep(0)

        if not self._ended:
            with suppress(CancelledError):  # the clients have all gone meanwhile
                asyncio.run_coroutine_threadsafe(turns(), self._loop).result(10)
