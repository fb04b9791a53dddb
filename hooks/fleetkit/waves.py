"""Which children may have a version now: a wave opens by the health of those before it, a bad release stops early."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleetkit.branches import branch_for, branch_of, is_merged, merged_at
from fleetkit.children import WAVES, Child, Fleet, FleetError
from fleetkit.hosts import connect
from fleetkit.open_requests import open_in_fleet
from fleetkit.requests import Look, kind_of
from fleetkit.state import ADOPTIONS, LOCKS, State

PUSHED = ("clean", "conflict", "to do")  # edits at risk and failed tests are held back until a person looked at them
FIRST = 5  # children that may have a version of which nobody knows yet whether it is good
GOOD, BAD = ("merged", "green"), ("red",)
AT_ONCE = 8  # hosts' answers that are waited for together


@dataclass(frozen=True)
class Rules:
    """When a wave opens: share that must be good, share that may have failed, hours since the youngest came."""

    threshold: float = 0.9
    max_failed: float = 0.2
    soak: float = 0.0


def on_host(fleet: Fleet, child: Child, branch: str) -> Look:
    """Return how what a branch brings fares in a child, by the requests on its host."""
    return connect(child, fleet.host_of(child)).look(branch)


def look_at(state: State, fleet: Fleet, child: Child, to: str) -> Look:
    """Return how the update to a version fares in a child, by its host, else by its default branch."""
    look = on_host(fleet, child, branch_for(state, child, to))
    return look if look.state or not is_merged(state, child, to) else Look("merged", merged_at(state, child))


def looks_of(look: Callable[[Child], Look], children: Iterable[Child]) -> dict[str, Look]:
    """Return how the update fares in each of the children; one whose host cannot be asked has not taken it."""

    def one(child: Child) -> Look:
        try:
            return look(child)
        except Exception:  # one odd repository must not stop the others; applying it says what is wrong
            return Look()

    members = list(children)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip((child.name for child in members), pool.map(one, members), strict=True))


def named(looks: dict[str, Look], states: tuple[str, ...]) -> list[str]:
    """Return the children in one of the states."""
    return [name for name, look in looks.items() if look.state in states]


def takes(state: State, child: Child, to: str) -> bool:
    """Tell whether a child counts among those that are to have `to`."""
    record = state.read(child.name)
    return not child.paused and (record.get("to") != to or record.get("outcome") != "left out")


def check_failures(looks: dict[str, Look], to: str, max_failed: float) -> None:
    """Raise FleetError where too many children that have a verdict have a bad one."""
    good, bad = named(looks, GOOD), named(looks, BAD)
    kinds = {LOCKS: "--locks", ADOPTIONS: "--adoptions"}
    back = "rollback " + next((option for kind, option in kinds.items() if to.startswith(kind)), f"--to {to}")
    if bad and len(bad) / len(good + bad) > max_failed:
        raise FleetError(
            f"{to} failed in {len(bad)} of {len(good + bad)} children that have a verdict ({', '.join(bad[:5])}), and "
            f"{max_failed:.0%} may fail: nothing more is pushed; look at them, or take it back with {back}"
        )


def check_waves(state: State, fleet: Fleet, wave: str, to: str, rules: Rules) -> None:
    """Raise FleetError while the waves before `wave` have not shown that `to` is good."""
    for earlier in WAVES[: WAVES.index(wave)]:
        members = [child for child in fleet.children if child.wave == earlier and takes(state, child, to)]
        looks = looks_of(lambda child: look_at(state, fleet, child, to), members)
        good = named(looks, GOOD)
        check_failures(looks, to, rules.max_failed)
        if members and len(good) / len(members) < rules.threshold:
            green = len(named(looks, ("green",)))
            also = f" ({green} of them green and not merged yet)" if green else ""
            raise FleetError(
                f"wave {earlier} merged {to} in {len(good)} of {len(members)} children{also} and needs "
                f"{rules.threshold:.0%}: settle them before wave {wave}, or lower --threshold"
            )
        check_soak({name: looks[name] for name in good}, earlier, to, rules.soak)


def check_soak(good: dict[str, Look], wave: str, to: str, hours: float) -> None:
    """Raise FleetError where the youngest of a wave has not had the version for so long, or where that is not known."""
    if not hours:
        return  # nor does a host whose clock is ahead of this one hold anything up
    if unknown := [name for name, look in good.items() if look.since is None]:
        raise FleetError(
            f"since when {unknown[0]} has {to} is not known, so wave {wave} cannot be said to have it for {hours:g} h: "
            "a merge commit or a squash tells it, a fast-forward does not; look yourself, and leave out --soak"
        )
    youngest = max((look.since for look in good.values() if look.since), default=None)
    soaked = datetime.now(UTC) - youngest if youngest else timedelta.max
    if soaked < timedelta(hours=hours):
        had = soaked.total_seconds() / 3600
        raise FleetError(f"wave {wave} has had {to} for {had:.1f} h of {hours:g} h: wait, or lower --soak")


def room(state: State, fleet: Fleet, to: str, max_failed: float) -> int | None:
    """Return how many more children may have `to` before one has shown that it is good; None for any number.

    Only hosts tell that: children on plain git do not count. Raises FleetError where too many failed.
    """
    records = {child.name: state.read(child.name) for child in fleet.children if not child.paused}
    told = [c for c in fleet.children if c.name in records and fleet.host_of(c).kind != "git"]
    members = [child for child in told if records[child.name].get("to") == to]
    taken = {child.name: Look("merged") for child in members if records[child.name].get("outcome") == "up to date"}
    asked = [child for child in members if child.name not in taken]
    looks = taken | looks_of(lambda child: on_host(fleet, child, branch_for(state, child, to)), asked)
    check_failures(looks, to, max_failed)
    if named(looks, GOOD):
        return None
    have = {*named(looks, (*BAD, "waiting", "closed"))}  # and one that cannot be asked today, and got it before
    have |= {child.name for child in asked if is_offered(state, child, to, [])}
    return max(0, FIRST - len(have))


def is_offered(state: State, child: Child, to: str, branches: list[str]) -> bool:
    """Tell whether a child has the request of just this version: that it got an older one says nothing of it.

    `branches` are those of its open requests, where its host was asked.
    """
    pushed, branch = state.read(child.name).get("pushed", {}), branch_for(state, child, to)
    return branch in branches or (bool(pushed.get("open")) and pushed.get("branch") == branch)


def to_push(state: State, fleet: Fleet, wave: str, max_open: int | None, max_failed: float = 1) -> list[Child]:
    """Return the children of a wave whose planned update is to be pushed, as many as may be open at once.

    Raises FleetError without a finished plan.
    """
    plan = state.plan()
    if not plan.get("finished"):
        raise FleetError("there is no finished plan: run fleet plan (adopt, lock) first")
    members = [child for child in fleet.children if child.wave == wave and not child.paused]
    records = {child.name: state.read(child.name) for child in fleet.children}
    planned = [
        c for c in members if records[c.name].get("to") == plan["to"] and records[c.name].get("outcome") in PUSHED
    ]
    pushed = [child for child in fleet.children if records[child.name].get("pushed", {}).get("open")]
    merged = {child.name for child in pushed if is_merged(state, child, plan["to"])}
    open_now = {child.name for child in pushed} - merged
    number, told = len(open_now), dict[str, list[str]]()
    if max_open is not None:  # this folder may know nothing of what an earlier run opened
        told = open_in_fleet(state, fleet)
        number = sum(map(len, told.values()))
        kind = kind_of(branch_of(plan["to"]))  # a renewal of locks takes the place of no update
        open_now = {name for name, branches in told.items() if any(one and kind_of(one) == kind for one in branches)}
    unmerged = [child for child in planned if child.name not in merged]
    again = [child for child in unmerged if is_offered(state, child, plan["to"], told.get(child.name, []))]
    new = [child for child in unmerged if child not in again]
    hosted = [child for child in new if fleet.host_of(child).kind != "git"]
    left = room(state, fleet, plan["to"], max_failed) if hosted else None
    if left is not None and left < len(hosted):
        held = {child.name for child in hosted[left:]}
        print(
            f"fleet: {len(held)} children wait until one of the first {FIRST} is green: apply again then",
            file=sys.stderr,
        )
        new = [child for child in new if child.name not in held]
    instead = [child for child in new if child.name in open_now]  # of an older request: no more are open by it
    more = [child for child in new if child.name not in open_now]
    return again + instead + (more if max_open is None else more[: max(0, max_open - number)])
