"""Hosts as they are: busy, paged, archived, answering nonsense; and what is read there of a request's health."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_in_place_of_an_answer_is_one_short_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with host_of(kind, monkeypatch) as (server, host):
        server.troubles = [(502, AGAIN, f"<html>\n{'Bad Gateway ' * 500}</html>")] * 40
        with pytest.raises(Exception) as error:  # noqa: PT011
            opened(host)
        told = clients.reason(error.value)
        assert ("\n" in told, len(told) < 400) == (False, True), told


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
            branch = f"template/v1.{number}.0"
            request |= {"source_branch": branch, key: signed("old", branch) if number == 38 else "of somebody else"}
            request["head"] = request.get("head", {}) | {"ref": branch}
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_whose_answer_got_lost_is_merged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second try is refused, since the first one merged."""
    with host_of(kind, monkeypatch) as (server, host):
        opened(host)
        server.checks["acme/one"] = ["success"]
        server.after, server.puts = ["PUT"], [(502, AGAIN, "<html>Bad Gateway</html>"), (405, {}, "{}")]
        assert host.merge_when_green(BRANCH, HEAD) == "merged"


def test_a_merge_queue_is_given_what_is_green(monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of("github", monkeypatch) as (server, host):
        opened(host)
        server.checks["acme/one"] = ["success"]
        told = "Repository rule violations found\n\nChanges must be made through the merge queue"
        server.puts = [(405, {}, json.dumps({"message": told}))]
        assert host.merge_when_green(BRANCH, HEAD) == "merges when green"
        assert ("AUTOMERGE", HEAD) in server.calls


def test_the_thirty_first_status_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub lists a page of statuses; its own word is about all of them."""
    with host_of("github", monkeypatch) as (server, host):
        opened(host)
        server.statuses["acme/one"] = ["success"] * 30 + ["failure"]
        assert host.look(BRANCH).state == "red"
        assert host.merge_when_green(BRANCH, HEAD) == ""
        server.statuses["acme/one"] = ["success"] * 31
        assert host.merge_when_green(BRANCH, HEAD) == "merged"


@pytest.mark.parametrize(("said", "state"), [("running", "waiting"), ("success", "green"), ("failed", "red")])
def test_the_pipeline_of_a_merged_result_counts(said: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on a commit of its own, so that the branch's commit has the word of others alone, or none."""
    with host_of("gitlab", monkeypatch) as (server, host):
        opened(host)
        server.pipelines["acme/one"] = said
        for others in ([], ["success"]):
            server.checks["acme/one"] = others
            assert host.look(BRANCH).state == state, others


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_is_told_as_a_date_too_and_has_an_end(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        for when in ("Wed, 21 Oct 2015 07:28:00 GMT", format_datetime(datetime.now(UTC), usegmt=True), "soon"):
            server.troubles = [(503, {"Retry-After": when}, "<html>busy</html>")]
            assert opened(host), when
        for when in ("86400", format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)):
            server.troubles = [(429, {"Retry-After": when}, "{}")]
            with pytest.raises(FleetError, match=r"asks to wait for 86[34]"):
                opened(host)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [301, 302, 307])
def test_no_token_follows_a_redirect_to_another_host(kind: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host), serve(kind) as other:
        server.troubles = [(code, {"Location": f"{other.address}/elsewhere"}, "{}")] * 3
        with pytest.raises(Exception) as error:  # noqa: PT011
            host.look(BRANCH)
        assert other.tokens == [], "the token went to another host"
        assert "\n" not in clients.reason(error.value)
        other.faults.clear()
        server.faults.clear()


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
        server.people = ("team-a",)  # a person who is called as the team is
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
        older = {"pushed": {"open": True, "branch": "template/v1.0.0"}}  # which every child has taken long ago
        state.write(name, {"name": name, "to": "v2.0.0", "outcome": "clean", "commit": HEAD} | older)
    state.write_plan({"to": "v2.0.0", "finished": True, "commits": dict.fromkeys(looks, HEAD)})

    def pushed() -> list[str]:
        due = [child.name for child in waves.to_push(state, fleet, "rest", None, 0.2)]
        for name in due:
            state.write(name, state.read(name) | {"pushed": {"open": True, "branch": BRANCH}})
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


def test_a_child_whose_host_fell_silent_still_has_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a host that answers nothing would let a bad release go beyond the first five."""
    state = State(tmp_path)
    looks = {f"c{number}": Look() for number in range(20)}
    fleet = fleet_of(monkeypatch, looks, 0)

    def on_host(fleet: Fleet, child: Child, branch: str) -> Look:
        if int(child.name[1:]) < 5:
            raise OSError("no answer")
        return Look()

    monkeypatch.setattr(waves, "on_host", on_host)
    for number, name in enumerate(looks):
        pushed = {"pushed": {"open": True, "branch": BRANCH}} if number < 5 else {}
        state.write(name, {"name": name, "to": "v2.0.0", "outcome": "clean", "commit": HEAD} | pushed)
    state.write_plan({"to": "v2.0.0", "finished": True, "commits": dict.fromkeys(looks, HEAD)})
    assert [child.name for child in waves.to_push(state, fleet, "rest", None, 0.2)] == [f"c{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("since", "words"), [(None, "is not known"), (2, r"for 2\.0 h of 24 h"), (-3, r"for -3\.0 h of")]
)
def test_plain_git_is_waited_for_too(
    since: float | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was merged there, and when, only the history tells; a clock that was put back opens no wave."""
    fleet = fleet_of(monkeypatch, {"a": Look(), "r": Look()}, 1)
    when = None if since is None else datetime.now(UTC) - timedelta(hours=since)
    monkeypatch.setattr(waves, "is_merged", lambda state, child, to: child.name == "a")
    monkeypatch.setattr(waves, "merged_at", lambda state, child: when)
    with pytest.raises(FleetError, match=words):
        waves.check_waves(State(tmp_path), fleet, "rest", "v2.0.0", Rules(soak=24))
    waves.check_waves(State(tmp_path), fleet, "rest", "v2.0.0", Rules(soak=0 if since is None or since < 0 else 1))
