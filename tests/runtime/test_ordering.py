"""Which texts share a batch of the service: those that are about as long, where that saves the model time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime.serving.batch_limit import BatchLimit
from gpu_repo_runtime.serving.batch_planning import PLANNED_BATCHES, Cost
from gpu_repo_runtime.serving.batch_queue import TURN_SHARE, BatchQueue
from gpu_repo_runtime.serving.call import Batch, Call
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import every, sampled

LIMIT, TEXTS = 32, 20_000
# Seconds of a call, by its texts and the longest of them: like a CPU, like a GPU, like a model that pads all texts to
# one length, and like one to which neither matters.
MODELS: dict[str, Callable[[int, int], float]] = {
    "by characters": lambda texts, longest: 0.002 + 1e-4 * texts * longest,
    "like a GPU": lambda texts, longest: max(0.02, 1e-6 * texts * longest),
    "by texts": lambda texts, longest: 0.006 + 0.01 * texts,
    "always the same": lambda texts, longest: 0.05,
}


@pytest.fixture(scope="module")
def ordering(serving: Callable[[str], ModuleType]) -> ModuleType:
    """Return the service's module."""
    return serving("batch_planning")


def some_lengths(chance: random.Random, count: int) -> list[int]:
    """Return log-normal lengths in characters: the median is 100, a few are over 1,000."""
    return [max(1, round(chance.lognormvariate(4.6, 1.0))) for _ in range(count)]


class Queue:
    """A queue without a model: what it takes is computed. ``order``: lengths are known to it."""

    def __init__(self, seconds: Callable[[int, int], float], *, order: bool = True) -> None:
        self.limit, self.cost = BatchLimit(LIMIT), Cost()
        self.queue = BatchQueue(self.limit, self.cost, 10**6, lambda: 0.0)
        self._seconds, self._order = seconds, order

    def add(self, *lengths: int) -> Call:
        sizes = lengths if self._order else [1] * len(lengths)
        call = Call(lengths, sizes, None, None, [], None, 0.0, len(lengths), len(lengths))
        self.queue.add(call)
        return call

    def run(self) -> tuple[Batch, float]:
        """Return the next batch and its seconds."""
        batch, _ = self.queue.take()
        _, lengths = self.queue.begin(batch)
        self.queue.end(answered=True)
        took = self._seconds(len(batch), max(lengths))
        self.cost.learn(len(batch), max(call.sizes[index] for call, index in batch), took)
        return batch, took


def served(seconds: Callable[[int, int], float], clients: int, *, order: bool) -> float:
    """Return the seconds for TEXTS texts of a closed loop of clients; as they come without `order`."""
    queue = Queue(seconds, order=order)
    new = iter(some_lengths(random.Random(0), TEXTS + clients))
    total, done, ready = 0.0, 0, clients
    while done < TEXTS:
        for _ in range(ready):
            queue.add(next(new))
        batch, took = queue.run()
        total, done, ready = total + took, done + len(batch), len(batch)
    return total


@pytest.mark.parametrize("clients", sampled([8, 32, 64, 400], [64]))
def test_a_model_that_pads_gets_texts_of_about_the_same_length(clients: int) -> None:
    seconds = MODELS["by characters"]
    assert served(seconds, clients, order=True) < 0.6 * served(seconds, clients, order=False)


@pytest.mark.parametrize("clients", sampled([1, 8, 32, 64, 400], [32]))
@pytest.mark.parametrize("name", sampled(MODELS, every(2)))
def test_no_model_is_slower_for_it(name: str, clients: int) -> None:
    """What has to be tried to learn what the model takes costs little."""
    assert served(MODELS[name], clients, order=True) < 1.05 * served(MODELS[name], clients, order=False)


@pytest.mark.parametrize("place", sampled([0, 7, 63], [7]))
@pytest.mark.parametrize("clients", [40, 300])
def test_a_long_text_waits_for_no_more_than_was_planned_with_it(clients: int, place: int) -> None:
    """However many short texts arrive, a long one has its turn."""
    queue = Queue(MODELS["by characters"])
    for _ in range(100):
        queue.add(50)
    old = queue.add(*(4000 if index == place else 50 for index in range(64)))
    before, found, new = 0, False, clients
    while not found:
        for _ in range(new):
            queue.add(50)
        batch, _ = queue.run()
        found = (old, place) in batch
        before, new = before + len(batch), len(batch)
    turns = place // (LIMIT // TURN_SHARE) + 1
    assert before <= turns * (100 + clients + PLANNED_BATCHES * LIMIT)


calls = st.lists(st.tuples(st.integers(1, 32), st.integers(0, 5000), st.floats(1e-6, 10)), max_size=12)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=80), limit=st.integers(1, 40), known=calls)
def test_a_plan_is_complete_and_thought_to_be_faster(
    ordering: ModuleType, lengths: list[int], limit: int, known: list[tuple[int, int, float]]
) -> None:
    cost = ordering.Cost()
    for call in known:
        cost.learn(*call)
    order, sizes = ordering.plan(lengths, limit, cost)
    assert sorted(order) == list(range(len(lengths)))
    if not sizes:
        assert list(order) == list(range(len(lengths)))
        return
    assert sum(sizes) == len(lengths)
    assert max(sizes) <= limit

    def takes(texts: list[int], sizes: list[int]) -> float:
        rest = iter(texts)
        batches = [[next(rest) for _ in range(size)] for size in sizes]
        return sum(cost.of(len(batch), max(batch)) for batch in batches)

    whole = [min(limit, len(lengths) - start) for start in range(0, len(lengths), limit)]
    assert takes([lengths[i] for i in order], sizes[::-1]) <= ordering.MAX_COST_RATIO * takes(lengths, whole) + 1e-9


def test_texts_of_one_length_go_as_they_come(ordering: ModuleType) -> None:
    cost = ordering.Cost()
    for texts, longest in ((1, 10), (32, 4000), (8, 50)):
        cost.learn(texts, longest, 1e-4 * texts * longest)
    order, sizes = ordering.plan([300, 290, 310] * 30, LIMIT, cost)
    assert (list(order), sizes) == (list(range(90)), [])
    order, sizes = ordering.plan([3000, 20, 30] * 30, LIMIT, cost)
    assert sizes, "it does sort these"


def test_answers_go_to_their_requests_and_dropped_texts_are_left_out(
    serving: Callable[[str], ModuleType], ordering: ModuleType
) -> None:
    """The whole batcher with a model that takes the longer the more it computes, and clients who leave."""
    errors, chance = serving("errors"), random.Random(1)
    batches: list[list[str]] = []

    def predict(texts: list[str], _: Any) -> list[dict[str, Any]]:
        batches.append(texts)
        time.sleep(1e-5 * len(texts) * max(map(len, texts)))
        return [{"text": text} for text in texts]

    owner = SimpleNamespace(predict=predict, batch_done=lambda batch, seconds: None)

    async def main() -> None:
        batcher = serving("batcher").Batcher(owner, limit=8, max_queue=10_000)
        batcher.start()
        requests = [
            [f"{number} {'x' * length}" for length in some_lengths(chance, chance.randrange(1, 9))]
            for number in range(60)
        ]
        waiting = [batcher.submit(texts) for texts in requests]
        await waiting[0].done
        gone = [call for number, call in enumerate(waiting) if number % 3 == 2 and not call.done.done()]
        for call in gone:
            batcher.drop(call, errors.ClientGone("gone"))
        answers = await asyncio.gather(*(call.done for call in waiting), return_exceptions=True)
        batcher.stop()
        assert len(gone) > 5
        for call, texts, answer in zip(waiting, requests, answers, strict=True):
            if call in gone:
                assert isinstance(answer, errors.ClientGone)
            else:
                assert [one["text"] for one in answer] == texts
        assert batcher.queue.count == 0

    asyncio.run(asyncio.wait_for(main(), 60))
    padded = sum(len(batch) * max(map(len, batch)) for batch in batches)
    assert padded < 2.5 * sum(len(text) for batch in batches for text in batch)
