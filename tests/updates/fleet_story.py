"""What happens to a whole fleet: a good release, kills on the way, a bad release, and both taken back.

Each chapter says what was found as figures; what must hold whatever the numbers are is asserted.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from tests.updates.odd_children import ODD
from tests.updates.whole_fleet import BAD, GOOD, ONE, WAVES, WholeFleet, branch_of

Figures = dict[str, Any]


def seconds(work: Callable[[], Any]) -> float:
    """Return how long something takes."""
    started = time.monotonic()
    work()
    return round(time.monotonic() - started, 1)


def told(fleet: WholeFleet, name: str) -> str:
    """Return what the tool says of a child in its record."""
    place = fleet.folder / "state" / "children" / f"{name}.json"
    record = json.loads(place.read_text()) if place.exists() else {}
    words = (record.get("message"), record.get("apply_error"), record.get("pushed", {}).get("merge"))
    return " ".join(word for word in words if word)


def kill_now_and_then(fleet: WholeFleet, kills: int, drawn: random.Random, options: tuple[str, ...]) -> int:
    """Kill an apply of the last wave at random moments; return how many of them were still at work."""
    hit = 0
    for _ in range(kills):
        command = fleet.command("apply", "--wave", "rest", *options)
        run = subprocess.Popen(
            command, env=fleet.environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            run.wait(timeout=drawn.uniform(0.6, 4))
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            hit += 1
        run.wait()
        fleet.pipelines()
    return hit


def good_release(fleet: WholeFleet, kills: int, drawn: random.Random, *options: str) -> Figures:
    """Bring a good release to the whole fleet; it is killed on the way, and goes on from an empty folder."""
    found: Figures = {"status_s": seconds(lambda: fleet.run("status")), "plan_s": seconds(lambda: fleet.plan(GOOD))}
    for wave in WAVES[:2]:
        fleet.roll_out(wave, *options)
    found["kills"] = kill_now_and_then(fleet, kills, drawn, options)
    fleet.forget()
    fleet.plan(GOOD)
    last = fleet.roll_out("rest", *options)[-1]
    ends = {name: fleet.end(name, GOOD) for name in fleet.places}
    wrong = {name: ends[name] for name, odd in ODD.items() if ends[name] != odd.end}
    assert not wrong, f"{wrong}\n{last.stdout}{last.stderr}"
    for name in ODD:  # the last folder knows those of the last wave by what it did, the others by its plan
        if fleet.waves[name] == "rest":
            assert ODD[name].words in told(fleet, name), f"{name}: {told(fleet, name)}"
    merged = {name for name, end in ends.items() if end == "merged"}
    assert fleet.at(GOOD) == merged, "what follows the version was not merged by its host, or the other way round"
    check_nothing_lost(fleet)
    return found | {
        "clean": len(fleet.clean()), "clean_merged": len(merged & fleet.clean()),
        "odd": {name: ends[name] for name in ODD},
    }  # fmt: skip


def check_nothing_lost(fleet: WholeFleet) -> None:
    """Assert that every child has the owner's line, and at most one open request."""
    for name, place in fleet.places.items():
        if name != "empty":
            assert place.git("show", "HEAD:own.txt") == f"of {name}", name
        still = [one for one in fleet.requests(name) if str(one["state"]).startswith("open")]
        assert len(still) <= 1, f"{name} has {[branch_of(one) for one in still]} open"


def next_plan(fleet: WholeFleet) -> Figures:
    """Plan the same version again; return how many children are told to be up to date, of those that have it."""
    took = seconds(lambda: fleet.plan(GOOD))
    state = fleet.folder / "state" / "children"
    outcomes = {name: json.loads((state / f"{name}.json").read_text())["outcome"] for name in fleet.at(GOOD)}
    assert set(outcomes.values()) == {"up to date"}, outcomes
    return {"plan_again_s": took, "up_to_date": len(outcomes)}


def bad_release(fleet: WholeFleet, *options: str) -> Figures:
    """Offer a release that fails everywhere, again and again and from an empty folder; return how many got it."""
    branch = f"template/{BAD}"
    for _ in range(2):
        fleet.plan(BAD)
        for wave in WAVES:
            last = fleet.roll_out(wave, *options)[-1]
            stopped = last.returncode == 1 and "failed in" in last.stderr
            assert stopped or wave == WAVES[0], f"{wave}: {last.stdout}{last.stderr}"  # all canaries may have it
        fleet.forget()
    got = fleet.with_branch(branch)
    assert not fleet.at(BAD)
    fleet.run("rollback", "--to", BAD)
    assert not fleet.with_branch(branch), "a branch of the bad release is still there"
    assert not [one for n in fleet.places for one in fleet.requests(n) if still_open(one, branch)]
    check_nothing_lost(fleet)
    return {"bad_release_reached": len(got)}


def still_open(request: dict[str, Any], branch: str) -> bool:
    """Tell whether this is the open request of a branch."""
    return branch_of(request) == branch and str(request["state"]).startswith("open")


def take_back(fleet: WholeFleet) -> Figures:
    """Take the good release back from an empty folder; every child is then as it was at first."""
    had = fleet.at(GOOD)
    fleet.forget()
    done = fleet.run("rollback", "--to", GOOD)
    asked = {n for n in had if any(still_open(one, f"template/revert-{GOOD}") for one in fleet.requests(n))}
    assert asked == had, f"{sorted(had - asked)} got no reverting request: {done.stdout}{done.stderr}"
    fleet.merge_reverts(GOOD)
    back = {name for name in had if fleet.places[name].git("rev-parse", "HEAD^{tree}") == fleet.start[name]}
    assert back == had, f"{sorted(had - back)} are not as they were"
    assert had <= fleet.at(ONE)
    return {"taken_back": len(back)}


def play(fleet: WholeFleet, kills: int, drawn: random.Random, *options: str) -> Figures:
    """Play the whole story; return its figures."""
    found = good_release(fleet, kills, drawn, *options) | next_plan(fleet)
    return found | bad_release(fleet, *options) | take_back(fleet)
