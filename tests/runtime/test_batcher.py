"""The batcher: which inputs share a batch, whose turn it is, and what failing inputs and little memory do."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from gpu_repo_runtime.serving.batch_planning import MAX_COST_RATIO, Cost, plan
from gpu_repo_runtime.serving.errors import ServiceError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.simulated import Client, World
from tests.runtime.standin_model import lose_device

HUGE = "x" * 10_000


def slow(items: list[Any]) -> float:
    """A model whose full batch takes 80 ms."""
    return 0.016 + 0.002 * len(items)


def clients(count: int, *items: Any, name: str = "client", **identity: Any) -> list[Client]:
    """Clients that send the same request again and again, each from its own address unless it is given."""
    return [(name, lambda _: list(items), {"client": (name, number), **identity}) for number in range(count)]


def raising(error: BaseException, when: Callable[[list[Any]], bool]) -> Callable[[list[Any]], None]:
    """Return a refusal of the batches for which ``when`` is true."""

    def refuse(items: list[Any]) -> None:
        if when(items):
            raise type(error)  # a new one: an old one keeps the places of every time

    return refuse


def poisoned(items: list[Any]) -> bool:
    return any("poison" in item for item in items)


# Which inputs share a batch.


def test_a_batch_is_what_waits_up_to_the_limit() -> None:
    world = World(limit=8).run(0.001, *clients(1, *map(str, range(10))))
    assert [len(call) for call in world.calls] == [8, 2]
    world = World().run(0.5, *clients(20, "a text"))
    assert [len(call) for call in world.calls[:3]] == [20, 20, 20], "a busy device takes what arrived meanwhile"


def test_a_stopped_batcher_answers_what_it_has_and_takes_no_more() -> None:
    async def main() -> None:
        world = World()
        world._ended = True  # no clients
        await world.batcher.start(lambda: None)
        calls = [world.submit([number]) for number in range(100)]
        world.batcher.stop()
        with pytest.raises(ServiceError, match="the service is stopping"):
            world.submit(["late"])
        assert [(await call.done)[0]["item"] for call in calls] == list(range(100))

    asyncio.run(main())


known_calls = st.lists(st.tuples(st.integers(1, 32), st.integers(0, 5000), st.floats(1e-6, 10)), max_size=12)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=80), limit=st.integers(1, 40), known=known_calls)
def test_a_plan_is_complete_and_expected_to_be_faster(
    lengths: list[int], limit: int, known: list[tuple[int, int, float]]
) -> None:
    cost = Cost()
    for call in known:
        cost.learn(*call)
    order, sizes = plan(lengths, limit, cost)
    assert sorted(order) == list(range(len(lengths)))
    if not sizes:
        assert list(order) == list(range(len(lengths)))
        return
    assert (sum(sizes), max(sizes) <= limit) == (len(lengths), True)

    def takes(texts: list[int], sizes: Sequence[int]) -> float:
        rest = iter(texts)
        batches = [[next(rest) for _ in range(size)] for size in sizes]
        return sum(cost.of(len(batch), max(batch)) for batch in batches)

    whole = [min(limit, len(lengths) - start) for start in range(0, len(lengths), limit)]
    assert takes([lengths[i] for i in order], sizes[::-1]) <= MAX_COST_RATIO * takes(lengths, whole) + 1e-9


def test_storms_of_clients_who_leave_take_no_memory() -> None:
    """Clients send and hang up while a call takes long: what is left does not grow with their number."""

    async def main() -> None:
        world, entered, go_on = World(), asyncio.Event(), threading.Event()
        world._ended, batcher, loop = True, world.batcher, asyncio.get_running_loop()

        def hold(items: list[Any]) -> list[Any]:
            loop.call_soon_threadsafe(entered.set)
            assert go_on.wait(20)
            return items

        await batcher.start(lambda: None)
        batcher.submit(["one"], hold)
        await entered.wait()

        def storm(count: int) -> int:
            for number in range(count):
                call = batcher.submit([object()] * 3, hold, client=number, group=number % 50)
                batcher.drop(call, ServiceError("gone", "client_gone"))
                call.done.exception()
            gc.collect()
            return len(gc.get_objects())

        storm(1000)
        assert storm(5000) < storm(1000) + 500
        go_on.set()
        batcher.stop()

    asyncio.run(main())


# Whose turn it is.


def test_large_requests_delay_small_ones_by_one_batch_and_are_not_left_behind() -> None:
    full = slow([""] * 32)
    alone = World(slow).run(20, *clients(8, "a text")).p50("client")
    crowded = World(slow).run(20, *clients(8, "a text"), *clients(4, *["another text"] * 64, name="large"))
    assert alone == pytest.approx(slow([""] * 8))
    assert crowded.p50("client") <= 1.01 * full
    texts = crowded.answered() + 64 * crowded.answered("large")
    assert texts >= 0.95 * 32 / full * 20, "the batches stay full"
    assert 64 * crowded.answered("large") >= 0.6 * texts
    large = World(slow).run(40, *clients(64, "a text"), *clients(1, *["another text"] * 64, name="large"))
    assert max(large.seconds["large"]) <= 1.9 * (64 // 4) * (64 + 4) / 32 * full


def test_requests_of_other_parameters_share_no_batch_and_have_their_turns() -> None:
    world = World(slow)
    world.run(20, *clients(4, *["a"] * 64, group="a"), *clients(1, "b", name="other", group="b"))
    assert all(len(set(items)) == 1 for items in world.calls)
    assert world.p50("other") <= 3 * slow([""] * 32)


# What fails.


@pytest.mark.parametrize("place", [0, 15, 16, 31])
def test_an_input_that_fails_is_found_in_a_full_batch(place: int) -> None:
    world = World(refuse=raising(ValueError(), poisoned))
    many = clients(32, "a text")
    many[place] = ("bad", lambda n: ["poison"], {"client": "bad"})
    world.run(0.001, *many)
    assert (dict(world.outcomes["bad"]), world.outcomes["client"].keys()) == ({"prediction_failed": 1}, {"answered"})
    assert len(world.calls) <= 11, "2 x log2(32) + 1 calls find it"


@pytest.mark.parametrize(
    "error", [SystemExit(), KeyboardInterrupt(), GeneratorExit(), StopIteration(), BaseException()]
)
def test_whatever_a_model_raises_for_an_input_is_the_end_of_that_input_alone(error: BaseException) -> None:
    world = World(refuse=raising(error, poisoned))
    world.run(0.5, *clients(31, "a text"), *clients(1, "poison", name="bad"))
    assert world.outcomes["bad"].keys() == {"prediction_failed"}
    assert world.outcomes["client"].keys() == {"answered"}


@pytest.mark.slow
def test_one_client_whose_inputs_fail_costs_the_others_little() -> None:
    healthy = World().run(20, *clients(63, "a text")).answered()
    world = World(refuse=raising(ValueError(), poisoned)).run(
        20, *clients(63, "a text"), *clients(1, "poison", name="bad")
    )
    assert world.outcomes["bad"].keys() == {"prediction_failed"}
    assert world.answered() >= 0.75 * healthy, f"{world.answered()} of {healthy}"


def test_a_lost_device_fails_all_that_run_and_wait_and_nothing_is_computed_after() -> None:
    world = World(refuse=lambda items: lose_device() if "lost" in items else None)
    world.run(1, *clients(64, "a text"), *clients(1, "lost", name="loses"))
    assert {name for counts in world.outcomes.values() for name in counts} <= {"answered", "device_lost"}
    assert "lost" in world.calls[-1], "nothing is computed after the loss"


# What does not fit into memory.


def shortages(world: World) -> float:
    return world.metrics.registry.get_sample_value("service_memory_shortages_total") or 0


def out_of_memory(when: Callable[[list[Any]], bool]) -> Callable[[list[Any]], None]:
    return raising(MemoryError(), when)


@pytest.mark.parametrize("huge", [HUGE, "!"], ids=["the longest", "the shortest"])
@pytest.mark.parametrize("among", [0, 1, 63])
def test_an_input_that_is_too_large_is_its_own_413_and_nothing_else_changes(huge: str, among: int) -> None:
    world = World(refuse=out_of_memory(lambda items: huge in items))
    world.run(0.5, ("huge", lambda _: ["fine", huge], {"client": "huge"}), *clients(among, "a text"))
    assert world.outcomes["huge"].keys() == {"input_too_large"}
    assert not among or world.outcomes["client"].keys() == {"answered"}
    assert (world.batcher.limit.now, shortages(world)) == (32, 0)


@pytest.mark.slow
@pytest.mark.parametrize("room", [1, 20, 31])
def test_a_shortage_ends_with_the_largest_batch_that_fits(room: int) -> None:
    world = World(refuse=out_of_memory(lambda items: len(items) > room)).run(8, *clients(40, "a text"))
    assert world.outcomes["client"].keys() == {"answered"}
    assert world.batcher.limit.now in (room, min(32, room + 1)), "it grew back to what fits"
    failed = sum(len(call) > room for call in world.calls)
    assert shortages(world) <= failed <= 12, "a size that failed is tried after twice as many good calls"


@pytest.mark.slow
def test_long_inputs_that_only_fit_in_small_batches_leave_the_short_ones_their_large_ones() -> None:
    """Memory follows items times the longest of them; the limit on the number stays what it is."""

    def too_much(items: list[str]) -> bool:
        return len(items) * max(map(len, items)) > 32 * 100

    world = World(refuse=out_of_memory(too_much))
    world.run(4, *clients(60, "x" * 90), *clients(4, "x" * 1000, name="long"))
    assert world.outcomes["client"].keys() == world.outcomes["long"].keys() == {"answered"}
    assert max(map(len, world.calls[-200:])) == 32
    assert sum(map(too_much, world.calls)) <= 0.05 * len(world.calls)


def test_a_device_without_room_for_anything_is_no_fault_of_the_input() -> None:
    world = World()
    world.refuse = out_of_memory(lambda items: 1 < world.now < 2)
    outcomes = world.run(4, *clients(16, "a text")).outcomes["client"]
    assert outcomes.keys() <= {"answered", "out_of_memory", "input_too_large"}
    assert outcomes["input_too_large"] <= 0.02 * outcomes["out_of_memory"]
    assert outcomes["answered"] > outcomes["out_of_memory"]
