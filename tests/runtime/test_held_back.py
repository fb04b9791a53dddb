"""The error of a client whom nothing tells from the others waits until they have had their time."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_repo_runtime.serving import heldback
from gpu_repo_runtime.serving.call import Call
from gpu_repo_runtime.serving.errors import DeadlineExceeded, PredictionFailed
from gpu_repo_runtime.serving.heldback import HeldBack
from gpu_repo_runtime.serving.service import Service

from tests.runtime.simulated import World
from tests.runtime.test_poison import SECONDS, attackers, fails, fine, fresh, kept, kept_rate, poison
from tests.sampling import sampled

Scene = Callable[[HeldBack], Any]
MIXES = [(8, 2, 0.5), (8, 4, 0.5), (16, 2, 0.5), (8, 16, 0.4), (16, 16, 0.4), (63, 16, 0.4)]


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad", "least"), sampled(MIXES, [(8, 2, 0.5), (8, 16, 0.4)]))
def test_clients_from_the_attackers_address_have_more_than_a_fair_share(good: int, bad: int, least: float) -> None:
    rate, world = kept_rate(fresh("gateway", good), attackers(bad, "gateway"))
    assert rate >= least
    assert world.outcomes["bad"]["prediction_failed"] > SECONDS, "they have their answers too"


@pytest.mark.slow
def test_where_all_fail_now_and_then_they_keep_most_of_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody attacks here: to be told later costs those who fail their next requests."""
    draw = random.Random(1)

    def mixed(count: int) -> list[str]:
        return poison(count) if draw.random() < 0.02 else fine(count)

    with_it = World(predict=fails).run(SECONDS, *fresh("gateway", 16, mixed)).answered("good")
    monkeypatch.setattr(heldback, "MOST_HELD", 0)
    assert with_it >= 0.75 * World(predict=fails).run(SECONDS, *fresh("gateway", 16, mixed)).answered("good")


@pytest.mark.slow
def test_who_is_known_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []
    hold = HeldBack.hold
    monkeypatch.setattr(
        HeldBack, "hold", lambda self, call, *about: (held.append(call.client), hold(self, call, *about))
    )
    count = itertools.count()

    def once(_: int) -> list[str]:
        return [f"{'poison' if next(count) == 100 else 'fine'} {next(count)}"]

    World(predict=fails).run(SECONDS, *kept("good", 8), *attackers(2), ("slip", once, {"client": ("known", 1)}))
    assert held
    assert ("known", 1) not in held


def in_a_loop(scene: Scene) -> None:
    async def main() -> None:
        await asyncio.wait_for(scene(HeldBack()), 20)

    asyncio.run(main())


def a_call() -> Call:
    return Call(["text"], [4], None, None, [None], asyncio.get_running_loop().create_future(), 0.0, 1, 1)


def told(calls: list[Call]) -> list[bool]:
    return [call.done.done() for call in calls]


def test_they_are_told_in_turn_when_the_others_have_had_their_time() -> None:
    async def scene(held: HeldBack) -> None:
        calls = [a_call() for _ in range(2)]
        for call in calls:
            held.hold(call, PredictionFailed("poison"), 0.1, 9)
        assert told(calls) == [False, False]
        held.pay(0.31)
        assert told(calls) == [True, False]
        held.pay(0.31)
        assert told(calls) == [True, True]
        assert {str(call.done.exception()) for call in calls} == {"poison"}

    in_a_loop(scene)


def test_no_more_are_held_than_wait_and_the_first_is_told_first() -> None:
    async def scene(held: HeldBack) -> None:
        calls = [a_call() for _ in range(4)]
        for call in calls:
            held.hold(call, PredictionFailed("poison"), 0.1, 2)
        assert told(calls) == [True, True, False, False]
        held.hold(alone := a_call(), PredictionFailed("poison"), 0.1, 0)
        assert told([*calls, alone]) == [True] * 5, "nobody waits who could use the time"

    in_a_loop(scene)


@pytest.mark.parametrize("cost", [0.001, 1e6])
def test_nobody_is_held_for_long_when_the_model_is_not_called_again(
    cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldback, "MOST_S", 0.05)

    async def scene(held: HeldBack) -> None:
        held.hold(call := a_call(), PredictionFailed("poison"), cost, 9)
        with pytest.raises(PredictionFailed):
            await call.done
        assert not held

    in_a_loop(scene)


def test_when_the_service_stops_all_are_told_and_nobody_is_held() -> None:
    async def scene(held: HeldBack) -> None:
        first, second = a_call(), a_call()
        held.hold(first, PredictionFailed("poison"), 0.1, 9)
        service: Any = SimpleNamespace(batcher=SimpleNamespace(held=held), state="ready", enter=lambda *_: None)
        Service.drain(service)
        held.hold(second, PredictionFailed("poison"), 0.1, 9)
        assert told([first, second]) == [True, True]

    in_a_loop(scene)


def test_who_gives_up_is_held_no_longer() -> None:
    async def scene(_: HeldBack) -> None:
        batcher = World().batcher
        (call := a_call()).gone = True
        batcher.held.hold(call, PredictionFailed("poison"), 0.1, 9)
        batcher.drop(call, DeadlineExceeded("late"))
        with pytest.raises(PredictionFailed):
            await call.done
        assert not batcher.held

    in_a_loop(scene)
