"""Clients that do not wait for an answer before they send the next poison: many at once, or gone before it is there."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from gpu_repo_runtime.serving.errors import QueueFull

from tests.runtime.simulated import World
from tests.runtime.test_poison import Client, attackers, fails, fine, fresh, kept, poison, port
from tests.sampling import sampled

SECONDS, QUEUE = 4.0, 256
draw = random.Random(1)


def impatient(count: int, patience: float = 0.010) -> list[Client]:
    """Clients that hang up and come again."""
    return [("bad", poison, lambda _: {"client": ("evil", next(port)), "patience": patience}) for _ in range(count)]


def half_good(count: int) -> list[Client]:
    """Clients of whose inputs two of five make the model fail."""
    return fresh("evil", count, lambda n: poison(n) if draw.random() < 0.4 else fine(n), "bad")


def from_everywhere(count: int) -> list[Client]:
    """Clients of whom each has an address and opens a connection for each request."""
    return [client for place in range(count) for client in fresh(f"good {place}", 1)]


GOOD = {"8 kept": kept("good", 8), "63 kept": kept("good", 63), "63 new": fresh("good", 63)}
GOOD |= {"1 kept": kept("good", 1), "8 new": fresh("good", 8), "63 from everywhere": from_everywhere(63)}
BAD = {"240 in flight": attackers(240), "gone after 10 ms": impatient(64), "gone after 3 ms": impatient(64, 0.003)}
BAD |= {"64 in flight": attackers(64), "half good": half_good(240), "more than fit": attackers(280)}
CASES = list(itertools.product(GOOD, BAD))
QUICK = [
    ("8 kept", "240 in flight"),
    ("63 kept", "240 in flight"),
    ("8 kept", "gone after 10 ms"),
    ("63 new", "half good"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad"), sampled(CASES, QUICK))
def test_poison_that_nobody_waits_for_leaves_the_others_most_of_their_rate(good: str, bad: str) -> None:
    healthy = World(predict=fails, max_queue=QUEUE).run(SECONDS, *GOOD[good]).answered("good")
    world = World(predict=fails, max_queue=QUEUE).run(SECONDS, *GOOD[good], *BAD[bad])
    assert world.outcomes["good"].keys() == {"answered"}, "nobody else is refused, however full the queue is"
    assert world.answered("good") >= 0.6 * healthy, f"{world.answered('good')} of {healthy}"


def waiting(world: World, count: int, host: str, texts: int = 1) -> list[Any]:
    return [world.batcher.submit(["text"] * texts, client=(host, place)) for place in range(count)]


def in_a_full_queue(scene: Any) -> None:
    async def main() -> None:
        world = World(max_queue=64)
        world.batcher._loop = asyncio.get_running_loop()  # nothing takes from the queue
        scene(world)

    asyncio.run(main())


def refused(calls: list[Any]) -> list[int]:
    return [
        place for place, call in enumerate(calls) if call.done.done() and isinstance(call.done.exception(), QueueFull)
    ]


def test_who_holds_more_than_half_of_a_full_queue_makes_room_and_the_last_go_first() -> None:
    def scene(world: World) -> None:
        many = waiting(world, 64, "many")
        assert refused(waiting(world, 2, "few")) == []
        assert refused(many) == [62, 63]
        with pytest.raises(QueueFull):
            waiting(world, 1, "many")
        assert refused(waiting(world, 1, "large", texts=30)) == []
        assert refused(many) == list(range(32, 64))
        with pytest.raises(QueueFull):
            waiting(world, 1, "few")
        assert world.batcher.queue.depth == 64

    in_a_full_queue(scene)


def test_nobody_gives_way_for_what_would_not_fit_all_the_same() -> None:
    def scene(world: World) -> None:
        many = waiting(world, 64, "many")
        with pytest.raises(QueueFull):
            waiting(world, 1, "large", texts=33)
        assert refused(many) == []

    in_a_full_queue(scene)


def test_a_client_who_hangs_up_beside_a_fault_is_forgotten_and_the_others_are_called_together() -> None:
    """The one that has left is likely to be the cause: what is left is not searched."""
    world = World(predict=fails)
    once = ("bad", lambda n: poison(n) if not n else fine(n), {"client": ("bad", 1), "patience": 0.001})
    world.run(0.1, *kept("good", 8), once)
    first, second = world.calls[:2]
    assert [text for text in first if text.startswith("fine")] == [text for text in first if text in second]
    assert world.outcomes["bad"]["client_gone"] >= 1
