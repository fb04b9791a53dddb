"""The batcher: what it takes, what it refuses, and what one bad text, too little memory or a lost device do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.sampling import sampled


class Owner:
    """Answers each text with itself; holds every call until `open` is set, and fails as told."""

    def __init__(self, errors: Any) -> None:
        self.errors = errors
        self.batches: list[list[str]] = []
        self.open, self.entered = threading.Event(), threading.Event()
        self.open.set()
        self.fits, self.released, self.lost = 10**6, 0, []

    def predict(self, texts: list[str], group: Any) -> list[dict]:
        self.batches.append(texts)
        self.entered.set()
        assert self.open.wait(10)
        if len(texts) > self.fits:
            raise MemoryError
        if "lost" in texts:
            raise RuntimeError("lost")
        if "poison" in texts:
            raise ValueError("poison")
        return [{}] * (len(texts) - 1) if "short" in texts else [{"text": text} for text in texts]

    def classify(self, error: BaseException, index: int | None) -> Exception:
        kinds = {MemoryError: self.errors.OutOfMemory, RuntimeError: self.errors.DeviceLost}
        return kinds.get(type(error), self.errors.PredictionFailed)(f"texts.{index}: {error}")

    def too_large(self, index: int) -> Exception:
        return self.errors.InputTooLarge(f"texts.{index}")

    def release(self) -> None:
        self.released += 1

    def batch_done(self, batch: Any, seconds: float) -> None:
        assert seconds >= 0

    def device_lost(self, error: Exception) -> None:
        self.lost.append(error)


@pytest.fixture
def owner(serving: Callable) -> Owner:
    return Owner(serving("errors"))


@pytest.fixture
def run(serving: Callable, owner: Owner) -> Callable[..., Any]:
    """Return a function that runs a scenario with a started batcher, and stops the batcher."""

    def of(scenario: Callable[[Any], Coroutine[Any, Any, Any]], limit: int = 32, max_queue: int = 10_000) -> Any:
        async def main() -> Any:
            batcher = serving("batcher").Batcher(owner, limit=limit, max_queue=max_queue)
            batcher.start()
            try:
                return await asyncio.wait_for(scenario(batcher), 20)
            finally:
                owner.open.set()
                batcher.stop()

        return asyncio.run(main())

    return of


async def hold(batcher: Any, owner: Owner) -> Any:
    """Keep the device busy with one text, so that what is submitted next waits; returns the call."""
    owner.open.clear()
    owner.entered.clear()
    call = batcher.submit(["first"])
    await asyncio.to_thread(owner.entered.wait, 5)
    return call


def test_idle_device_takes_one_text_at_once_and_a_busy_one_the_whole_queue_next(run: Any, owner: Owner) -> None:
    async def scenario(batcher: Any) -> None:
        first = await hold(batcher, owner)
        calls = [batcher.submit([f"text {number}"]) for number in range(10)]
        owner.open.set()
        answers = await asyncio.gather(first.done, *(call.done for call in calls))
        assert [answer[0]["text"] for answer in answers] == ["first", *(f"text {number}" for number in range(10))]

    run(scenario, limit=8)
    assert [len(batch) for batch in owner.batches] == [1, 8, 2]


def test_what_the_event_loop_finds_together_shares_a_batch_on_an_idle_device(run: Any, owner: Owner) -> None:
    async def scenario(batcher: Any) -> None:
        calls = []
        for number in range(5):
            calls.append(batcher.submit([str(number)]))
            time.sleep(0.01)  # the model's thread may run meanwhile
        await asyncio.gather(*(call.done for call in calls))

    run(scenario)
    assert [len(batch) for batch in owner.batches] == [5]


def test_a_request_larger_than_the_batch_is_split_and_answered_in_order(run: Any, owner: Owner) -> None:
    texts = [str(number) for number in range(11)]

    async def scenario(batcher: Any) -> list[dict]:
        return await batcher.submit(texts).done

    assert [answer["text"] for answer in run(scenario, limit=4)] == texts
    assert max(map(len, owner.batches)) == 4


def test_a_full_queue_refuses_and_says_when_to_come_back(run: Any, owner: Owner, serving: Callable) -> None:
    async def scenario(batcher: Any) -> None:
        await hold(batcher, owner)
        waiting = [batcher.submit(["a", "b"]) for _ in range(2)]
        with pytest.raises(serving("errors").QueueFull) as refused:
            batcher.submit(["c"])
        assert refused.value.retry_after >= 1
        batcher.drop(waiting[0], serving("errors").ClientGone("gone"))
        assert batcher.queue.depth == 2, "a dropped call gives its places back"
        batcher.submit(["c"])

    run(scenario, max_queue=4)


def test_dropped_work_is_never_computed(run: Any, owner: Owner, serving: Callable) -> None:
    errors = serving("errors")

    async def scenario(batcher: Any) -> None:
        await hold(batcher, owner)
        gone = [batcher.submit([f"gone {number}"]) for number in range(5)]
        stays = batcher.submit(["stays"])
        for call in gone:
            batcher.drop(call, errors.ClientGone("gone"))
        owner.open.set()
        assert (await stays.done)[0]["text"] == "stays"
        for call in gone:
            with pytest.raises(errors.ClientGone):
                await call.done

    run(scenario)
    assert owner.batches == [["first"], ["stays"]]


def test_a_queue_that_everybody_has_left_is_no_error(
    run: Any, owner: Owner, serving: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(batcher: Any) -> None:
        await hold(batcher, owner)
        for call in [batcher.submit([f"gone {number}"]) for number in range(5)]:
            batcher.drop(call, serving("errors").ClientGone("gone"))
            call.done.exception()
        owner.open.set()
        await asyncio.sleep(0.05)  # the model's thread looks for its next batch
        assert (await batcher.submit(["next"]).done)[0]["text"] == "next"

    run(scenario)
    assert not [one for one in caplog.records if one.name.startswith("gpu_repo_runtime")], caplog.text


@pytest.mark.parametrize("place", [0, 1, 15, 16, 30, 31])
def test_a_poisoned_text_fails_alone_in_a_full_batch(run: Any, owner: Owner, serving: Callable, place: int) -> None:
    errors = serving("errors")

    async def scenario(batcher: Any) -> list[Any]:
        await hold(batcher, owner)
        calls = [batcher.submit(["poison" if number == place else str(number)]) for number in range(32)]
        owner.open.set()
        return await asyncio.gather(*(call.done for call in calls), return_exceptions=True)

    outcome = run(scenario)
    failed = [number for number, result in enumerate(outcome) if isinstance(result, errors.PredictionFailed)]
    assert failed == [place]
    assert all(result == [{"text": str(number)}] for number, result in enumerate(outcome) if number != place)
    assert len(owner.batches) - 1 <= 11, "2 x log2(32) + 1 calls find the text"


@pytest.mark.parametrize("fits", sampled(range(1, 33), [1, 7, 32]))
def test_out_of_memory_halves_the_batch_and_is_remembered(run: Any, owner: Owner, fits: int) -> None:
    async def scenario(batcher: Any) -> int:
        await hold(batcher, owner)
        owner.fits = fits
        for count in (32, 6):
            calls = [batcher.submit([str(number)]) for number in range(count)]
            owner.open.set()
            answers = await asyncio.gather(*(call.done for call in calls))
            assert [answer[0]["text"] for answer in answers] == [str(number) for number in range(count)]
            tried, owner.batches = owner.batches, []
        assert all(len(batch) <= fits for batch in tried), "the second round must not run out of memory again"
        return batcher.limit

    limit = run(scenario)
    assert limit == max(size for size in (32, 16, 8, 4, 2, 1) if size <= fits)
    assert owner.released > 0 or fits == 32


def test_one_text_that_does_not_fit_fails_with_its_own_error(run: Any, owner: Owner, serving: Callable) -> None:
    async def scenario(batcher: Any) -> None:
        owner.fits = 0
        with pytest.raises(serving("errors").InputTooLarge):
            await batcher.submit(["a"]).done
        owner.fits = 1
        assert (await batcher.submit(["b"]).done)[0]["text"] == "b"

    run(scenario)


@pytest.mark.parametrize("place", [0, 20, 31])
def test_a_lost_device_fails_all_that_run_and_wait_and_refuses_the_next(
    run: Any, owner: Owner, serving: Callable, place: int
) -> None:
    errors = serving("errors")

    async def scenario(batcher: Any) -> None:
        first = await hold(batcher, owner)
        calls = [batcher.submit(["lost" if number == place else f"{number:04}"]) for number in range(64)]
        owner.open.set()
        assert (await first.done)[0]["text"] == "first"
        results = await asyncio.gather(*(call.done for call in calls), return_exceptions=True)
        assert all(isinstance(result, errors.DeviceLost) for result in results)
        with pytest.raises(errors.DeviceLost):
            batcher.submit(["later"])
        await asyncio.sleep(0)

    run(scenario)
    assert len(owner.lost) == 1
    assert len(owner.batches) == 2, "nothing is computed after the loss"


def test_clients_who_leave_while_a_fault_is_searched_do_not_end_the_service(
    run: Any, owner: Owner, serving: Callable
) -> None:
    """What is to be tried again has no client any more, and nothing else waits."""

    async def scenario(batcher: Any) -> list[dict]:
        await hold(batcher, owner)
        bad, *others = [batcher.submit([text], sizes=[1]) for text in ("poison", "a", "b", "c")]  # one batch
        predict = owner.predict

        def then_all_leave(texts: list[str], group: Any) -> list[dict]:
            if texts == ["poison", "a"]:
                for call in (bad, *others):
                    batcher.queue.remove(call)
            return predict(texts, group)

        owner.predict = then_all_leave  # type: ignore[method-assign]
        owner.open.set()
        await asyncio.sleep(0.1)
        return await asyncio.wait_for(batcher.submit(["next"]).done, 5)

    assert run(scenario) == [{"text": "next"}]
    assert owner.batches == [["first"], ["poison", "a", "b", "c"], ["poison", "a"], ["next"]]


def test_too_few_answers_are_an_error_and_not_mixed_up(run: Any, owner: Owner, serving: Callable) -> None:
    async def scenario(batcher: Any) -> list[Any]:
        await hold(batcher, owner)
        calls = [batcher.submit([text]) for text in ("a", "short", "b")]
        owner.open.set()
        return await asyncio.gather(*(call.done for call in calls), return_exceptions=True)

    a, short, b = run(scenario)
    assert a == [{"text": "a"}]
    assert b == [{"text": "b"}]
    assert isinstance(short, serving("errors").PredictionFailed)


def test_stop_answers_what_was_accepted_and_refuses_the_next(run: Any, owner: Owner, serving: Callable) -> None:
    async def scenario(batcher: Any) -> None:
        await hold(batcher, owner)
        calls = [batcher.submit([str(number)]) for number in range(40)]
        batcher.stop()
        with pytest.raises(serving("errors").NotReady):
            batcher.submit(["late"])
        owner.open.set()
        assert len(await asyncio.gather(*(call.done for call in calls))) == 40

    run(scenario)
