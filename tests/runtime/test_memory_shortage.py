"""Memory that runs out: an input that is too large is told from a full device, and what fits is found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.simulated import World
from tests.sampling import sampled

HUGE = 10_000


def fits(least: Callable[[list[Any]], bool]) -> Callable[[list[Any]], list[Any]]:
    """Return a model that runs out of memory unless a batch fits."""

    def predict(items: list[Any]) -> list[Any]:
        if not least(items):
            raise MemoryError
        return [{} for _ in items]

    return predict


def clients(count: int, *items: Any, name: str = "client") -> list[Any]:
    return [(name, lambda _: list(items), {"client": (name, number)}) for number in range(count)]


@pytest.mark.parametrize("huge", ["x" * HUGE, "!"], ids=["the longest", "the shortest"])
@pytest.mark.parametrize("among", [0, 1, 63])
def test_an_input_that_is_too_large_is_its_own_413_and_nothing_else_changes(huge: str, among: int) -> None:
    world = World(predict=fits(lambda items: huge not in items))
    world.run(0.5, ("huge", lambda _: ["fine", huge], {"client": "huge"}), *clients(among, "a text"))
    assert world.outcomes["huge"].keys() == {"input_too_large"}
    assert not among or world.outcomes["client"].keys() == {"answered"}
    assert (world.batcher.limit, world.batcher.memory.shortages) == (32, 0)


@pytest.mark.slow
def test_one_huge_input_after_the_other_costs_the_others_little() -> None:
    healthy = World().run(3, *clients(63, "a text")).answered("client")
    world = World(predict=fits(lambda items: max(map(len, items)) < HUGE))
    world.run(3, *clients(63, "a text"), ("huge", lambda n: [f"{n}" + "x" * HUGE], {"client": "huge"}))
    assert world.outcomes["huge"].keys() == {"input_too_large"}
    assert world.answered("client") >= 0.7 * healthy, f"{world.answered('client')} of {healthy}"


@pytest.mark.slow
@pytest.mark.parametrize("room", sampled([1, 2, 3, 5, 8, 20, 31, 32], [1, 20]))
def test_a_real_shortage_ends_with_the_largest_batch_that_fits(room: int) -> None:
    world = World(predict=fits(lambda items: len(items) <= room))
    world.run(4, *clients(40, "a text"))
    assert world.outcomes["client"].keys() == {"answered"}
    assert world.batcher.limit in (room, min(32, room + 1)), "it grew back to what fits"
    failed = sum(len(call) > room for call in world.calls)
    assert failed <= 12, "what has failed is tried again after twice as many good calls each time"
    assert world.batcher.memory.shortages <= failed


@pytest.mark.slow
@pytest.mark.parametrize("room", sampled([1, 5, 31], [5]))
def test_a_shortage_that_ends_leaves_nothing_behind(room: int) -> None:
    world = World()
    world._model = fits(lambda items: len(items) <= (room if world.now < 0.5 else 32))
    world.run(9, *clients(40, "a text"))
    assert world.batcher.limit == 32
    assert world.batcher.memory.shortages >= 1


@pytest.mark.slow
def test_long_inputs_that_only_fit_in_small_batches_leave_the_short_ones_their_large_ones() -> None:
    """Memory follows items times the longest of them; the limit on the number stays what it is."""
    room = 32 * 100
    world = World(predict=fits(lambda items: len(items) * max(map(len, items)) <= room))
    world.run(4, *clients(60, "x" * 90), *clients(4, "x" * 1000, name="long"))
    assert world.outcomes["client"].keys() == world.outcomes["long"].keys() == {"answered"}
    assert world.batcher.limit == 32
    tried, failed = len(world.calls), sum(len(call) * max(map(len, call)) > room for call in world.calls)
    assert failed <= 0.05 * tried, f"{failed} of {tried} calls ran out of memory"


def test_a_device_without_room_for_anything_is_no_fault_of_the_input() -> None:
    world = World()
    world._model = fits(lambda items: not 1 < world.now < 2)
    world.run(4, *clients(16, "a text"))
    outcomes = world.outcomes["client"]
    assert outcomes.keys() <= {"answered", "out_of_memory", "input_too_large"}
    assert outcomes["input_too_large"] <= 0.02 * outcomes["out_of_memory"]
    assert outcomes["answered"] > outcomes["out_of_memory"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, BaseException])
def test_whatever_a_model_raises_for_an_input_is_the_end_of_that_input_alone(error: type[BaseException]) -> None:
    def predict(items: list[Any]) -> list[Any]:
        if "bad" in items:
            raise error
        return [{} for _ in items]

    world = World(predict=predict).run(0.5, *clients(31, "a text"), *clients(1, "bad", name="bad"))
    assert world.outcomes["bad"].keys() == {"prediction_failed"}
    assert world.outcomes["client"].keys() == {"answered"}
    assert world.batcher.lost is None
