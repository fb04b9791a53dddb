"""What the service holds: nothing of a client who has gone, and nothing of a request that was answered."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_repo_runtime.serving.batcher import Batcher
from gpu_repo_runtime.serving.errors import ClientGone, DeadlineExceeded, QueueFull, ServiceError
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

    def predict(self, batch: list[Any], group: Any = None) -> list[Any]:
        if "one" in batch:  # the warm-up
            return [{} for _ in batch]
        self.entered.set()
        assert self.open.wait(20)
        if self.fail and len(batch) > 1:
            raise ValueError
        return [{} for _ in batch]

    def classify(self, error: BaseException, index: int | None) -> ServiceError:
        return ServiceError(type(error).__name__)

    def batch_done(self, batch: Any, seconds: float) -> None: ...


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
        batcher = Batcher(model, limit=4, max_queue=40)  # type: ignore[arg-type]
        batcher.start()
        for _ in range(3):
            inputs, alive = some(40)
            model.entered.clear()
            model.open.clear()
            first = batcher.submit(inputs[:8])
            await entered(model)
            others = [batcher.submit(inputs[start : start + 4]) for start in range(8, 40, 4)]
            del inputs
            assert len(alive) == 40
            for call in (first, *others):
                batcher.drop(call, ClientGone("gone"))
                assert isinstance(call.done.exception(), ClientGone)
            assert len(alive) <= 4, "only what the model has now"
            assert batcher.queue.depth == 4, "and that is counted"
            with pytest.raises(QueueFull):
                batcher.submit([Thing() for _ in range(37)])
            del first, others, call
            last = batcher.submit([Thing()])
            model.open.set()
            await last.done
            del last
            await asyncio.sleep(0.05)
            assert (len(alive), batcher.queue.depth, len(batcher.queue.calls)) == (0, 0, 0)
        batcher.stop()

    asyncio.run(main())


def test_what_was_answered_is_not_held_while_nothing_comes() -> None:
    model = Model()
    model.open.set()

    async def main() -> None:
        batcher = Batcher(model, limit=4, max_queue=40)  # type: ignore[arg-type]
        batcher.start()
        inputs, alive = some(10)
        call = batcher.submit(inputs, client="known")
        await call.done
        del inputs, call
        await asyncio.sleep(0.05)
        assert (len(alive), len(batcher.queue.calls)) == (0, 0)
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
        assert codes == {{"hang up": ClientGone.code, "deadline": DeadlineExceeded.code}.get(why, why)}
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
        batcher = Batcher(model, limit=4, max_queue=1000)  # type: ignore[arg-type]
        batcher.start()
        running = batcher.submit([Thing()])
        await entered(model)

        def storm(count: int) -> int:
            for number in range(count):
                call = batcher.submit([Thing()] * 3, client=number, group=number % 50)
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
