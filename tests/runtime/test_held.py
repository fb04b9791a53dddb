"""What the service holds: nothing of a client who has gone, and nothing of a request that was answered."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_repo_runtime.serving.batcher import Batcher, BatchEvents
from gpu_repo_runtime.serving.errors import ClientGone, ServiceError
from gpu_repo_runtime.serving.service import Service
from gpu_repo_runtime.serving.settings import Settings


class Thing:
    """Something that can be seen to be freed."""


class Model:
    """Holds every call until it is told to go on; some inputs make it fail."""

    examples = ("one",)

    def __init__(self) -> None:
        self.entered, self.open, self.fail = threading.Event(), threading.Event(), False

    def load(self, device: str) -> None: ...

    def predict(self, batch: list[Any]) -> list[Any]:
        if "one" in batch:  # the warm-up
            return [{} for _ in batch]
        self.entered.set()
        assert self.open.wait(20)
        if self.fail:
            raise ValueError
        return [{} for _ in batch]

    def batcher(self, max_queue: int) -> Batcher:
        """Return a batcher in front of the model."""
        events = BatchEvents(lambda error, _: ServiceError(type(error).__name__), int, lambda *_: None, print)
        return Batcher(events, limit=4, max_queue=max_queue)


@pytest.fixture(autouse=True)
def only_references_count() -> Iterator[None]:
    """Without the garbage collector, which would find what is held in a circle too, and pytest's list of log lines."""
    gc.collect()
    gc.disable()
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


def some(count: int) -> tuple[list[Thing], weakref.WeakSet[Thing]]:
    inputs = [Thing() for _ in range(count)]
    return inputs, weakref.WeakSet(inputs)


async def entered(model: Model) -> None:
    assert await asyncio.to_thread(model.entered.wait, 10)


# How a request ends -> its code.
ENDS = {
    "hang up": "client_gone",
    "deadline": "deadline_exceeded",
    "cancelled": "cancelled",
    "answered": "answered",
    "failed": "prediction_failed",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_request_that_ended_holds_nothing_and_one_that_is_given_up_only_what_the_model_has(end: str) -> None:
    model = Model()
    model.fail = end == "failed"

    async def request(service: Service, inputs: list[Thing], leave: asyncio.Event) -> str:
        async def receive() -> Any:
            await leave.wait()
            return {"type": "http.disconnect"}

        try:
            await service.call(inputs, receive=receive)
        except ServiceError as error:
            return error.code
        except asyncio.CancelledError:
            return "cancelled"
        return "answered"

    async def main() -> None:
        seconds = 0.2 if end == "deadline" else 30
        service = Service(model, Settings(device="cpu", max_batch_size=4, request_seconds=seconds))  # type: ignore[arg-type]
        await service.start()
        inputs, alive = some(60)
        leave = asyncio.Event()
        tasks = [asyncio.create_task(request(service, inputs[start : start + 6], leave)) for start in range(0, 60, 6)]
        await entered(model)
        await asyncio.sleep(0.02)  # from now on their connections are watched
        del inputs
        if end == "hang up":
            leave.set()
        elif end == "cancelled":
            for task in tasks:
                task.cancel()
        elif end != "deadline":
            model.open.set()
        codes = set(await asyncio.gather(*tasks))
        del tasks
        assert codes == {ENDS[end]}
        for _ in range(100):  # the ends of the tasks that watched the connections are still to run
            if len(alive) <= 4:
                break
            await asyncio.sleep(0.01)
        assert len(alive) <= 4
        model.open.set()
        service.stop()
        await asyncio.sleep(0.05)
        assert len(alive) == 0

    asyncio.run(main())


def test_storms_of_clients_who_leave_take_no_memory() -> None:
    """Clients send and hang up while a call takes long: what is left does not grow with their number."""
    model = Model()

    async def main() -> None:
        batcher = model.batcher(1000)
        batcher.start()
        running = batcher.submit([Thing()], model.predict)
        await entered(model)

        def storm(count: int) -> int:
            for number in range(count):
                call = batcher.submit([Thing()] * 3, model.predict, client=number, group=number % 50)
                batcher.drop(call, ClientGone("gone"))
                call.done.exception()
            gc.collect()
            return len(gc.get_objects())

        storm(1000)
        assert storm(5000) < storm(1000) + 500
        model.open.set()
        await running.done
        batcher.stop()

    asyncio.run(main())
