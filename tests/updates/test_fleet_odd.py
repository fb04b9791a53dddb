"""One odd child or host stops no other: a worker that is killed, a child that hangs, drafts that are not offered."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor

import pytest
from fleetkit.children import Child, HostRule, same_place
from fleetkit.hosts import connect
from fleetkit.pool import in_processes, time_limit
from fleetkit.state import Record

from tests.updates.remotes import serve

URL = "https://code.example.com/"


def work(child: Child) -> Record:
    if child.name.startswith("killer"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": child.name, "outcome": "clean"}


@pytest.mark.parametrize("killers", [(0,), (3, 4, 5), (11,), ()])
def test_a_child_that_kills_its_worker_stops_no_other(killers: tuple[int, ...]) -> None:
    names = [f"killer{number}" if number in killers else f"c{number}" for number in range(12)]
    context = multiprocessing.get_context("fork")
    told = in_processes(
        lambda size: ProcessPoolExecutor(size, context), 2, work, [Child(name, "u") for name in names],
        lambda child: {"name": child.name, "outcome": "error"},
    )  # fmt: skip
    found = [(child.name, record["outcome"]) for child, record in told]
    assert sorted(found) == sorted((name, "error" if "killer" in name else "clean") for name in names)


def test_a_child_that_hangs_is_given_up() -> None:
    with pytest.raises(TimeoutError, match=r"did not end in 0\.05 s"), time_limit(0.05):
        time.sleep(30)
    with time_limit(0.05):
        pass
    time.sleep(0.1)


def test_where_drafts_are_not_offered_the_title_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TOKEN", "secret")
    with serve("github") as server:
        host = connect(Child("one", f"{URL}acme/one.git"), HostRule(URL, "github", server.address, "FLEET_TOKEN"))
        text = '{"message": "Validation Failed: Draft pull requests are not supported in this repository."}'
        server.troubles = [None, None, (422, {}, text)]  # type: ignore[list-item]
        host.request("template/v2.0.0", "main", "Update", "text", True)
        [request] = server.requests["acme/one"]
        assert (request["title"], request["draft"]) == ("Do not merge yet: Update", False)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://code.example.com/acme/family.git", "git@code.example.com:acme/family.git", True),
        ("https://code.example.com/acme/family", "ssh://git@code.example.com:2222/acme/family.git", True),
        ("https://ada:token@code.example.com/acme/family/", "https://code.example.com/acme/family.git", True),
        ("file:///srv/family", "/srv/family", True),
        ("https://code.example.com/acme/family", "https://code.example.com/evil/family", False),
        ("https://code.example.com/acme/family", "https://evil.example.com/acme/family", False),
        ("https://code.example.com/acme/family", "/acme/family", False),
        ("https://code.example.com@evil.example.com/acme/family", "https://code.example.com/acme/family", False),
    ],
)
def test_the_template_is_known_by_ssh_and_https(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same
    assert same_place(other, one) is same
