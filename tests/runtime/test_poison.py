"""Clients that send ever new inputs on which the model fails: what they cost the others, in calls and model time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from gpu_repo_runtime.serving.suspicion import ALARM_S
from gpu_repo_runtime.serving.trust import REMEMBERED, Trust

from tests.runtime.simulated import DEVICE, World
from tests.sampling import sampled

SECONDS = 6.0
number, port = itertools.count(), itertools.count(1024)
Client = tuple[str, Callable[[int], list[str]], Any]


def fine(_: int) -> list[str]:
    return [f"fine {next(number)}"]


def poison(_: int) -> list[str]:
    return [f"poison {next(number)}"]


def kept(host: str, count: int, name: str = "good") -> list[Client]:
    """Clients that keep their connections."""
    return [(name, fine, {"client": (host, next(port))}) for _ in range(count)]


def fresh(host: str, count: int, request: Callable[[int], list[str]] = fine, name: str = "good") -> list[Client]:
    """Clients that open a connection for each request."""
    return [(name, request, lambda _: {"client": (host, next(port))}) for _ in range(count)]


def attackers(count: int, host: str = "evil") -> list[Client]:
    return fresh(host, count, poison, "bad")


def sly(count: int, harmless: int = 8) -> list[Client]:
    """Clients that send what is answered before they send poison, and then come on another connection."""

    def one() -> Client:
        first = next(port) + 10**6

        def request(count: int) -> list[str]:
            return poison(count) if count % (harmless + 1) == harmless else fine(count)

        return "bad", request, lambda count: {"client": ("evil", (first, count // (harmless + 1)))}

    return [one() for _ in range(count)]


def fails(items: list[Any], error: type[Exception] = ValueError) -> list[Any]:
    if any("poison" in item for item in items):
        raise error
    return [{} for _ in items]


def kept_rate(good: list[Client], bad: list[Client], name: str = "good", **world: Any) -> tuple[float, World]:
    """Return the share of their requests that clients have answered in spite of others, and how that went."""
    healthy = World(predict=fails).run(SECONDS, *good).answered(name)
    attacked = World(**{"predict": fails} | world).run(SECONDS, *good, *bad)
    assert {key for name, found in attacked.outcomes.items() if name != "bad" for key in found} == {"answered"}
    assert attacked.outcomes["bad"].keys() <= {"answered", "prediction_failed", "input_too_large"}
    return attacked.answered(name) / healthy, attacked


MIXES = [(good, bad) for good in (1, 8, 16, 63) for bad in (1, 2, 4, 16, 64)]


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad"), sampled(MIXES, [(8, 2), (63, 2)]))
def test_new_poison_on_new_connections_leaves_the_others_most_of_their_rate(good: int, bad: int) -> None:
    rate, world = kept_rate(kept("good", good), attackers(bad))
    assert rate >= (0.6 if bad <= 4 else 1 / 3 if good > 1 else 1 / 4)
    assert max(world.seconds["good"]) < (3 if bad <= 4 else 6), "nobody is left behind while a fault is searched for"
    assert world.outcomes["bad"]["prediction_failed"] > 5 * SECONDS, "those who send it have their answers too"


@pytest.mark.slow
def test_a_third_of_the_models_time_at_most_goes_to_who_fails() -> None:
    _, world = kept_rate(kept("good", 63), attackers(4))
    late = world.calls[len(world.calls) // 10 :]  # before that nobody is known
    seconds = {any("poison" in item for item in call): 0.0 for call in late}
    for call in late:
        seconds[any("poison" in item for item in call)] += DEVICE(call)
    assert seconds[True] <= 0.36 * sum(seconds.values())


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad", "least"), sampled([(8, 2, 0.6), (8, 16, 0.25), (63, 16, 0.6)], [(8, 2, 0.6)]))
def test_others_may_open_a_connection_for_each_request(good: int, bad: int, least: float) -> None:
    rate, _ = kept_rate(fresh("good", good), attackers(bad))
    assert rate >= least


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad", "least"), sampled([(8, 2, 0.33), (16, 2, 0.33), (63, 2, 0.5)], [(8, 2, 0.33)]))
def test_those_who_cannot_be_told_from_the_attackers_are_not_starved(good: int, bad: int, least: float) -> None:
    """A new connection for each request, all from the address of the attackers: a gateway, say."""
    rate, _ = kept_rate(fresh("gateway", good), attackers(bad, "gateway"))
    assert rate >= least


@pytest.mark.slow
def test_nor_are_they_beside_clients_that_are_known() -> None:
    good = kept("gateway", 4, "known") + fresh("gateway", 4, name="new")
    for name, least in (("known", 0.6), ("new", 0.1)):
        rate, _ = kept_rate(good, attackers(2, "gateway"), name)
        assert rate >= least, name


@pytest.mark.slow
def test_few_known_clients_do_not_take_the_time_of_many_others() -> None:
    good = kept("gateway", 1, "known") + fresh("gateway", 62, name="new")
    rate, _ = kept_rate(good, attackers(2, "gateway"), "new")
    assert rate >= 0.33


@pytest.mark.slow
@pytest.mark.parametrize("bad", sampled([2, 16, 64], [2]))
def test_to_send_what_is_answered_first_does_not_pay(bad: int) -> None:
    rate, _ = kept_rate(kept("good", 16), sly(bad))
    assert rate >= 0.4


@pytest.mark.slow
def test_inputs_that_are_too_large_cost_no_more_than_others_that_fail() -> None:
    rate, world = kept_rate(kept("good", 16), attackers(2), predict=lambda items: fails(items, MemoryError))
    assert world.outcomes["bad"].keys() == {"input_too_large"}
    assert rate >= 0.6


@pytest.mark.slow
def test_new_identities_are_like_new_connections() -> None:
    good = [("good", fine, {"client": b"good %d" % place}) for place in range(8)]
    bad = [("bad", poison, lambda _: {"client": b"%d" % next(port)}) for _ in range(2)]
    rate, _ = kept_rate(good, bad)
    assert rate >= 0.6


@pytest.mark.slow
def test_when_nothing_fails_any_more_all_share_batches_again() -> None:
    world = World(predict=fails)
    end = 3.0

    def once_poison(count: int) -> list[str]:
        return poison(count) if world.now < end else fine(count)

    world.run(end + ALARM_S + 3, *kept("good", 16), *fresh("other", 16, once_poison, "bad"))
    assert {len(call) for call in world.calls[-10:]} == {32}


@pytest.mark.slow
def test_two_failures_long_after_each_other_raise_no_alarm() -> None:
    world = World(predict=fails)

    def rare(count: int) -> list[str]:
        return poison(count) if world.now - world.last > 1.5 * ALARM_S else fine(count)

    def told(items: list[Any]) -> list[Any]:
        world.last = world.now if any("poison" in item for item in items) else world.last
        return fails(items)

    world.last, world._model = 0.0, told  # type: ignore[attr-defined]
    world.run(4 * ALARM_S, *kept("good", 4), *fresh("other", 1, rare, "bad"))
    assert world.outcomes["bad"]["prediction_failed"] == 2
    assert max(world.seconds["good"]) < 0.07, "a fault is found at once, as nothing else is searched for"


def test_what_is_remembered_of_connections_is_bounded_and_the_last_ones_stay() -> None:
    trust = Trust()

    class Entry:
        def __init__(self, client: Any) -> None:
            self.client = client

    for place in range(5 * REMEMBERED):
        trust.answered([(Entry((f"host {place}", 1)), 0), (Entry(("busy", 1)), 0)])  # type: ignore[list-item]
    assert len(trust._now) + len(trust._before) <= 2 * REMEMBERED + 8
    assert trust.proven(("busy", 1))
    assert trust.proven(("busy", 2)), "its address is known"
    assert not trust.proven(("host 1", 1))
    trust.failed(("busy", 2))
    assert trust.proven(("busy", 1)), "that another connection failed says nothing of it"
    assert not trust.proven(("busy", 3))
