"""Hosts as they are: busy, paged, archived, answering nonsense; and what is read there of a request's health."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleetkit import clients, numbers_given, waves
from fleetkit.children import Child, Fleet, FleetError, HostRule
from fleetkit.hosts import Host, connect
from fleetkit.requests import GREEN, RED, Look, signed, verdict
from fleetkit.state import State
from fleetkit.waves import Rules

from tests.updates.code_host import HEAD, Server
from tests.updates.contract import operation
from tests.updates.host_server import serve

KINDS = ("github", "gitlab")
BRANCH = "template/v2.0.0"
URL = "https://git.example.com/"
AGAIN = {"Retry-After": "0"}


@contextmanager
def host_of(kind: str, monkeypatch: pytest.MonkeyPatch, name: str = "one") -> Iterator[tuple[Server, Host]]:
    """Give a host and what the tool has of it."""
    with serve(kind) as server:
        monkeypatch.setenv("FLEET_TOKEN", server.token)
        rule = HostRule(URL, kind, server.address, "FLEET_TOKEN")
        yield server, connect(Child(name, f"{URL}acme/{name}.git"), rule)


def opened(host: Host, reviewer: str = "") -> str:
    return host.request(BRANCH, "main", "Update", "text", False, reviewer)


def is_open(request: dict[str, Any]) -> bool:
    return str(request["state"]).startswith("open")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [429, 502, 503])
def test_a_busy_host_is_asked_again(kind: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.troubles = [(code, AGAIN, '{"message": "later"}')]
        assert opened(host).endswith("/acme/one/1")
        assert len(server.requests["acme/one"]) == 1


def test_the_secondary_limit_of_github_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of("github", monkeypatch) as (server, host):
        limit = '{"message": "You have exceeded a secondary rate limit."}'
        server.troubles = [(403, AGAIN, limit)]
        assert opened(host)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_got_lost_opens_no_second_request(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        host.look(BRANCH)
        server.after = ["GET", "POST"]
        quiet = (200, AGAIN, "[]")
        repository = (200, AGAIN, f'{{"full_name": "acme/one", "url": "{server.address}/repos/acme/one"}}')
        server.troubles = [*([repository] if kind == "github" else []), quiet, (502, AGAIN, "lost")]
        assert opened(host).endswith("/acme/one/1")
        assert len(server.requests["acme/one"]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_all_pages_are_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        key = "body" if kind == "github" else "description"
        opened(host)
        first = server.requests["acme/one"][0]
        others = [
            first | {"number": n, "iid": n, "id": n, "url": f"{first.get('url', '')[:-1]}{n}"} for n in range(2, 41)
        ]
        server.requests["acme/one"] += others
        for number, request in enumerate(others):
            request[key] = signed("old", f"template/v1.{number}.0") if number == 38 else "of somebody else"
        server.page = 10
        opened(host)
        states = [is_open(request) for request in server.requests["acme/one"]]
        assert states == [True] * 39 + [False], "the older request on the fourth page stays open"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["<html>login</html>", "null", '[1, "a"]', '"words"', "{}"])
def test_an_answer_that_is_no_answer_is_one_sentence(kind: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.troubles = [(200, {}, text)] * 9
        with pytest.raises(Exception) as error:  # noqa: PT011
            opened(host)
        told = clients.reason(error.value)
        assert "\n" not in told
        for word in ("indices", "iterable", "NoneType", "attribute", "object has"):
            assert word not in told, told


@pytest.mark.parametrize("kind", KINDS)
def test_an_archived_repository_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.archived = {"acme/one"}
        with pytest.raises(FleetError, match="is archived"):
            host.closed(BRANCH)


@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_repository_gets_its_request_where_it_is_now(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.moved = {"acme/one": "other/two"}
        opened(host)
        assert opened(host).endswith("/other/two/1"), "the text of the open request is refreshed there"
        server.checks["other/two"] = ["success"]
        assert host.merge_when_green(BRANCH, HEAD) == "merged"
        assert {name: len(found) for name, found in server.requests.items()} == {"other/two": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_protected_branch_refuses_is_told_and_no_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.protected, server.checks["acme/one"] = {"acme/one"}, ["success"]
        opened(host)
        assert host.merge_when_green(BRANCH, HEAD).startswith("not merged: ")
        assert is_open(server.requests["acme/one"][0])


def test_a_server_of_ones_own_is_not_made_to_wait_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public GitHub asks for pauses; any other server says itself when it is busy."""
    waited: list[float] = []
    with host_of("github", monkeypatch) as (_, host):
        monkeypatch.setattr("github.Requester.time.sleep", waited.append)
        opened(host)
        opened(host)
    assert waited == []
    for api in clients.PUBLIC:
        rule = HostRule(URL, "github", api, "FLEET_TOKEN")
        assert clients.github(rule).requester._Requester__seconds_between_writes == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_owner_is_asked_to_review_where_the_host_knows_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        server.people = ("ada",)
        opened(host, "ada")
        request = server.requests["acme/one"][0]
        assert request.get("reviewer_ids", request.get("asked")) in ([7], {"reviewers": ["ada"]})
    with host_of(kind, monkeypatch) as (server, host):
        opened(host, "acme/team-a")
        assert server.requests["acme/one"][0].get("asked") in (None, {"team_reviewers": ["team-a"]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("checks", "state", "merged"),
    [
        ([], "waiting", ""),
        (["pending"], "waiting", "merges when green"),
        (["success", "in_progress"], "waiting", "merges when green"),
        (["success"], "green", "merged"),
        (["success", "failure"], "red", ""),
    ],
    ids=["not started", "pending", "one runs", "green", "red"],
)
def test_health_decides_what_is_merged(
    kind: str, checks: list[str], state: str, merged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        assert host.look(BRANCH) == Look()
        opened(host)
        server.checks["acme/one"] = checks
        look = host.look(BRANCH)
        assert (look.state, look.started) == (state, bool(checks))
        assert look.since is not None
        assert host.merge_when_green(BRANCH, "0" * 40) == "", "another commit than the planned one was merged"
        assert host.merge_when_green(BRANCH, HEAD) == merged
        assert (("AUTOMERGE", HEAD) in server.calls) is (merged == "merges when green")
        assert host.look(BRANCH).state == ("merged" if merged == "merged" else state)


@pytest.mark.parametrize(
    "said", ["waiting_for_resource", "waiting_for_callback", "canceling", "manual", "stale", "one day more"]
)
def test_only_what_is_known_to_be_good_is_green(said: str) -> None:
    assert verdict(["success", said]) == ("waiting", True)
    assert verdict(["success", "neutral", "skipped"]) == ("green", True)


def test_every_conclusion_that_github_publishes_is_known() -> None:
    _, rules = operation("github", "GET", f"/repos/acme/one/commits/{HEAD}/check-runs") or ("", {})
    run = rules["answers"]["200"]["properties"]["check_runs"]["items"]["properties"]
    assert set(run["conclusion"]["enum"]) - {None} <= GREEN | RED


@pytest.mark.parametrize("allowed", ["squash", "rebase"])
def test_a_pull_request_is_merged_in_a_way_that_its_repository_allows(
    allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host_of("github", monkeypatch) as (server, host):
        server.settings["acme/one"] = {
            "allow_merge_commit": False, "allow_squash_merge": allowed == "squash", "allow_rebase_merge": True,
            "allow_auto_merge": False,
        }  # fmt: skip
        opened(host)
        server.checks["acme/one"] = ["pending"]
        assert host.merge_when_green(BRANCH, HEAD) == "", "GitHub's own automatic merge is switched off here"
        server.checks["acme/one"] = ["success"]
        assert host.merge_when_green(BRANCH, HEAD) == "merged"


def fleet_of(monkeypatch: pytest.MonkeyPatch, looks: dict[str, Look], canaries: int) -> Fleet:
    """Return a fleet whose children fare as given; the first ones are canaries."""
    names = list(looks)
    children = [
        Child(name, f"{URL}{name}.git", "canary" if number < canaries else "rest") for number, name in enumerate(names)
    ]
    monkeypatch.setattr(waves, "on_host", lambda fleet, child, to: looks[child.name])
    monkeypatch.setattr(waves, "is_merged", lambda state, child, to: False)
    return Fleet(children, [HostRule(URL, "github")])


def test_a_wave_opens_by_the_health_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, recent = State(tmp_path), datetime.now(UTC) - timedelta(hours=2)
    good = {"a": Look("merged", recent), "b": Look("green", recent), "r": Look()}
    fleet = fleet_of(monkeypatch, good, 2)
    waves.check_waves(state, fleet, "rest", "v2.0.0", Rules(soak=1))
    with pytest.raises(FleetError, match=r"for 2\.0 h of 24 h"):
        waves.check_waves(state, fleet, "rest", "v2.0.0", Rules(soak=24))
    for bad, words in (
        (Look("waiting"), "in 1 of 2 children"),
        (Look("red"), "failed in 1 of 2"),
        (Look("closed"), "in 1 of 2 children"),
    ):
        fleet = fleet_of(monkeypatch, good | {"b": bad}, 2)
        with pytest.raises(FleetError, match=words):
            waves.check_waves(state, fleet, "rest", "v2.0.0", Rules())


def test_a_bad_release_is_stopped_within_five_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path)
    looks = {f"c{number}": Look() for number in range(40)}
    fleet = fleet_of(monkeypatch, looks, 0)
    for name in looks:
        state.write(name, {"name": name, "to": "v2.0.0", "outcome": "clean", "commit": HEAD})
    state.write_plan({"to": "v2.0.0", "finished": True, "commits": dict.fromkeys(looks, HEAD)})

    def pushed() -> list[str]:
        due = [child.name for child in waves.to_push(state, fleet, "rest", None, 0.2)]
        for name in due:
            state.write(name, state.read(name) | {"pushed": {"open": True}})
            looks[name] = looks[name] if looks[name].state else Look("waiting", None, True)
        return due

    assert len(pushed()) == 5
    assert len(pushed()) == 5, "nobody knows yet whether the release is good, and more children got it"
    looks["c0"] = Look("red")
    with pytest.raises(FleetError, match="failed in 1 of 1 children"):
        pushed()
    looks["c0"] = Look("green")
    assert len(pushed()) == 40


@pytest.mark.parametrize("text", ["nan", "-1", "2", "90", "inf", "-inf", "words", ""])
def test_a_share_is_between_none_and_all(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 0 to 1"):
        numbers_given.share(text)
    assert [numbers_given.share(good) for good in ("0", "0.9", "1")] == [0, 0.9, 1]
