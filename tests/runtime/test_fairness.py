"""Whose turn it is: what one client has waiting, or breaks, costs the others little."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.simulated import World
from tests.sampling import sampled

SINGLE = 8


def slow(items: list[Any]) -> float:
    """A model whose full batch takes 80 ms."""
    return 0.016 + 0.002 * len(items)


def padded(items: list[Any]) -> float:
    """A model that takes the longer the more it computes, padding included."""
    return 0.002 + 2e-5 * len(items) * max(map(len, items))


def singles(count: int = SINGLE) -> list[Any]:
    return [("single", lambda n: ["a text of one client"], {"client": f"single {number}"}) for number in range(count)]


def flood(requests: int = 4, texts: int = 64, *, client: bool) -> list[Any]:
    about = [{"client": "flood"} if client else {"client": f"connection {number}"} for number in range(requests)]
    return [("flood", lambda n: ["a text of the flood.."] * texts, each) for each in about]


@pytest.mark.parametrize("client", sampled([True, False], [True]), ids=["known by a header", "known by connections"])
def test_a_client_with_four_large_requests_in_flight_delays_the_others_by_a_batch(client: bool) -> None:
    alone = World(slow).run(20, *singles()).p50("single")
    crowded = World(slow).run(20, *singles(), *flood(client=client))
    full = slow([""] * 32)
    assert alone == pytest.approx(slow([""] * SINGLE)), "what it is without the flood"
    assert crowded.p50("single") <= 1.01 * full, f"{alone:.3f} s alone, {crowded.p50('single'):.3f} s with the flood"
    texts = crowded.answered("single") + 64 * crowded.answered("flood")
    assert texts >= 0.95 * 32 / full * 20, "the batches stay full"
    assert 64 * crowded.answered("flood") >= 0.6 * texts, "the flood gets what the others leave"


@pytest.mark.slow
def test_lengths_are_sorted_within_turns_and_not_across_a_flood() -> None:
    """Where batches follow lengths, a flood of uneven texts is planned no further ahead than the others can wait."""
    chance = random.Random(3)

    def uneven(count: int) -> Callable[[int], list[str]]:
        return lambda _: ["x" * max(1, round(chance.lognormvariate(4.6, 1.0))) for _ in range(count)]

    def load(others: int) -> World:
        clients = [("single", uneven(1), {"client": f"single {number}"}) for number in range(SINGLE)]
        clients += [("flood", uneven(64), {"client": f"connection {number}"}) for number in range(others)]
        return World(padded).run(60, *clients)

    alone, crowded = load(0), load(4)
    a_batch = 32 * crowded.now / sum(map(len, crowded.calls))
    assert crowded.p50("single") <= alone.p50("single") + 2 * a_batch


def test_a_large_request_is_not_left_behind_by_many_small_ones() -> None:
    world = World(slow).run(40, *singles(64), *flood(1, client=False))
    rounds = 64 // (32 // 4)
    a_round = (64 + 32 // 4) / 32 * slow([""] * 32)
    assert max(world.seconds["flood"]) <= 1.9 * rounds * a_round


def test_equal_clients_get_equal_shares() -> None:
    world = World(slow, limit=8)
    clients = [(f"client {n}", lambda _: ["text"] * 10, {"client": n}) for n in range(7)]
    world.run(60, *clients)
    answered = [world.answered(name) for name, *_ in clients]
    assert max(answered) - min(answered) <= 0.1 * max(answered)


def test_groups_have_their_turns() -> None:
    """Requests with other parameters never share a batch, and a flood of one kind does not hold back another."""
    mixed: list[list[Any]] = []

    def predict(items: list[Any]) -> list[Any]:
        mixed.append(items)
        return [{} for _ in items]

    world = World(slow, predict)
    crowd = [("crowd", lambda _: ["a"] * 64, {"group": "a", "client": n}) for n in range(4)]
    world.run(20, *crowd, ("other", lambda _: ["b"], {"group": "b", "client": "other"}))
    assert all(len(set(items)) == 1 for items in mixed)
    assert world.p50("other") <= 3 * slow([""] * 32)


def bad(items: list[Any]) -> list[Any]:
    """The model fails on a batch with a poisoned text."""
    if any("poison" in item for item in items):
        raise ValueError
    return [{} for _ in items]


@pytest.mark.slow
def test_one_client_whose_texts_make_the_model_fail_costs_the_others_little() -> None:
    healthy = World().run(20, *singles(63)).answered("single")
    same = ("bad", lambda n: ["poison"], {"client": "bad"})
    other = ("bad", lambda n: [f"poison {n}"], {"client": "bad"})
    hidden = ("bad", lambda n: ["poison"], {"client": None})
    for client in (same, other, hidden):
        world = World(predict=bad).run(20, *singles(63), client)
        assert world.outcomes["bad"].keys() == {"prediction_failed"}
        assert world.outcomes["single"].keys() == {"answered"}
        least = 0.65 if client is hidden else 0.75
        assert world.answered("single") >= least * healthy, f"{world.answered('single')} of {healthy}"


@pytest.mark.parametrize(("share", "least"), sampled([(0.01, 0.42), (0.05, 0.15), (0.5, 0.04)], [(0.05, 0.15)]))
def test_poison_that_nothing_gives_away_is_found_by_halving(share: float, least: float) -> None:
    """Every text is new and from a new client; each is judged alone in the end, and healthy ones are all answered."""
    chance = random.Random(5)

    def request(number: int) -> list[str]:
        return [f"{'poison' if chance.random() < share else 'fine'} {chance.random()}"]

    healthy = World().run(20, *singles(64)).answered("single")
    world = World(predict=bad).run(20, *(("mixed", request, {}) for _ in range(64)))
    failed = world.outcomes["mixed"]["prediction_failed"]
    assert world.outcomes["mixed"].keys() == {"answered", "prediction_failed"}
    assert failed == pytest.approx(share * len(world.seconds["mixed"]), rel=0.3)
    assert len(world.seconds["mixed"]) >= least * healthy, f"{len(world.seconds['mixed'])} of {healthy}"


def test_a_client_is_trusted_again() -> None:
    world = World(predict=bad)
    world.run(20, *singles(40), ("once", lambda n: ["poison" if n == 3 else "fine now"], {"client": "once"}))
    assert world.outcomes["once"]["prediction_failed"] == 1
    assert ["fine now"] not in world.calls[-100:], "it shares batches again"
