"""What the service holds: nothing of a client who has gone, and nothing of a request that was answered."""

from __future__ import annotations

import asyncio
import gc
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
        if self.fail and len(batch) > 1:
            raise ValueError
        return [{} for _ in batch]

    def batcher(self, max_queue: int) -> Batcher:
        """Return a batcher in front of the model."""
        events = BatchEvents(lambda error, _: ServiceError(type(error).__name__), int, lambda *_: None, print)
        return Batcher(events, limit=4, max_queue=max_queue)


@pytest.fixture(autouse=True)
def only_references_count() -> Iterator[None]:
    """Without the garbage collector, which would also find what is held in a circle, in its own time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def some(count: int) -> tuple[list[Thing], weakref.WeakSet[Thing]]:
    inputs = [Thing() for _ in range(count)]
    return inputs, weakref.WeakSet(inputs)


async def entered(model: Model) -> None:
    assert await asyncio.to_thread(model.entered.wait, 10)


@pytest.mark.parametrize("fail", [False, True], ids=["answered", "failed"])
def test_clients_that_leave_during_a_call_leave_only_what_is_in_the_model(fail: bool) -> None:
    model = Model()
    model.fail = fail

    async def main() -> None:
        batcher = model.batcher(40)
        batcher.start()
        for _ in range(3):
            inputs, alive = some(40)
            model.entered.clear()
            model.open.clear()
            first = batcher.submit(inputs[:8], model.predict)
            await entered(model)
            others = [batcher.submit(inputs[start : start + 4], model.predict) for start in range(8, 40, 4)]
            del inputs
            assert len(alive) == 40
            for call in (first, *others):
                batcher.drop(call, ClientGone("gone"))
                assert isinstance(call.done.exception(), ClientGone)
            assert len(alive) <= 4, "only what the model has now"
            assert batcher.queue.count == 0
            with pytest.raises(ServiceError, match="places are taken"):
                batcher.submit([Thing() for _ in range(41)], model.predict)
            del first, others, call
            last = batcher.submit([Thing()], model.predict)
            model.open.set()
            await last.done
            del last
            await asyncio.sleep(0.05)
            assert (len(alive), batcher.queue.count, len(batcher.calls)) == (0, 0, 0)
        batcher.stop()

    asyncio.run(main())


def test_what_was_answered_is_not_held_while_nothing_comes() -> None:
    model = Model()
    model.open.set()

    async def main() -> None:
        batcher = model.batcher(40)
        batcher.start()
        inputs, alive = some(10)
        call = batcher.submit(inputs, model.predict, client="known")
        await call.done
        del inputs, call
        await asyncio.sleep(0.05)
        assert (len(alive), len(batcher.calls)) == (0, 0)
        batcher.stop()

    asyncio.run(main())


@pytest.mark.parametrize("why", ["hang up", "deadline", "cancelled"])
def test_a_request_that_is_given_up_frees_its_inputs_while_the_model_still_runs(why: str) -> None:
    model = Model()

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
        seconds = 0.2 if why == "deadline" else 30
        service = Service(model, Settings(device="cpu", max_batch_size=4, request_seconds=seconds))  # type: ignore[arg-type]
        await service.start()
        inputs, alive = some(60)
        leave = asyncio.Event()
        tasks = [asyncio.create_task(request(service, inputs[start : start + 6], leave)) for start in range(0, 60, 6)]
        await entered(model)
        del inputs
        if why == "hang up":
            leave.set()
        elif why == "cancelled":
            for task in tasks:
                task.cancel()
        codes = set(await asyncio.gather(*tasks))
        del tasks
        await asyncio.sleep(0)
        assert codes == {{"hang up": "client_gone", "deadline": "deadline_exceeded"}.get(why, why)}
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
