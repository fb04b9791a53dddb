"""Reminders: one comment under a request that is open for long, again after an interval, by what the host remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fleetkit.children import Child, Fleet, HostRule
from fleetkit.hosts import connect
from fleetkit.remind import Patience, remind_child, words
from fleetkit.requests import REMINDER, Opened

from tests.updates.code_host import Server
from tests.updates.host_server import serve

URL = "https://code.example.com/"
BRANCH = "template/v2.0.0"
ONE = "acme/one/1"


def ago(days: float) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


def fleet_at(server: Server, kind: str, monkeypatch: pytest.MonkeyPatch, **more: bool) -> tuple[Fleet, Child]:
    """Return a fleet of one child on the stand-in, with one request of two weeks."""
    monkeypatch.setenv("FLEET_TOKEN", server.token)
    rule = HostRule(URL, kind, server.address, "FLEET_TOKEN")
    child = Child("one", f"{URL}acme/one.git", owner="acme/team-a", **more)  # type: ignore[arg-type]
    connect(child, rule).request(BRANCH, "main", "Update", "text", False)
    server.requests["acme/one"][0]["created_at"] = ago(14)
    return Fleet([child], [rule]), child


def comments(server: Server) -> list[str]:
    return [str(one["body"]) for one in server.comments.get(ONE, [])]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_one_comment_and_again_after_the_interval(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(kind) as server:
        fleet, child = fleet_at(server, kind, monkeypatch)
        early = remind_child(fleet, child, Patience(days=15))
        assert (early["requests"][0]["reminded"], comments(server)) == (False, []), "it is not old enough"
        dry = remind_child(fleet, child, Patience(told=False))
        assert (dry["requests"][0]["reminded"], comments(server)) == (True, []), "a dry run wrote"
        for _ in range(2):
            remind_child(fleet, child, Patience(days=7, every=7))
        [told] = comments(server)
        assert told.startswith("@acme/team-a: this request is open for 14 days: merge it, or close it")
        server.comments[ONE][0]["created_at"] = ago(8)
        server.comments[ONE].append({"id": 9, "body": "I am on it", "created_at": ago(1)})
        assert remind_child(fleet, child, Patience(days=7, every=7))["requests"][0]["reminded"]
        assert [REMINDER in text for text in comments(server)] == [True, False, True]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_closed_request_and_one_of_somebody_else_get_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(kind) as server:
        fleet, child = fleet_at(server, kind, monkeypatch)
        request = server.requests["acme/one"][0]
        text = "body" if kind == "github" else "description"
        for change in ({"state": "closed"}, {"state": "merged"}, {text: "A person's own"}, {text: None}):
            before = dict(request)
            request.update(change)
            record = remind_child(fleet, child, Patience())
            assert (record["requests"], comments(server)) == ([], []), change
            request.update(before)
        host = connect(child, fleet.host_of(child))
        request["state"] = "closed"  # between the list and the comment
        host.remind(BRANCH, "late")
        assert comments(server) == []


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_branch_of_a_fork_is_nobody_elses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may open a request can write our line into it, from a fork with a branch of that name."""
    with serve(kind) as server:
        fleet, child = fleet_at(server, kind, monkeypatch)
        [request] = server.requests["acme/one"]
        head = request.get("head", {}) | {"label": f"eve:{BRANCH}", "repo": {"id": 99}}
        request.update({"head": head} if kind == "github" else {"source_project_id": 99})
        host = connect(child, fleet.host_of(child))
        assert host.opened() == []
        host.remind(BRANCH, "text")
        assert (comments(server), host.close(BRANCH), host.look(BRANCH).state) == ([], False, "")


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_paused_child_and_a_broken_host_stop_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(kind) as server:
        fleet, child = fleet_at(server, kind, monkeypatch, paused=True)
        assert remind_child(fleet, child, Patience())["outcome"] == "paused"
        monkeypatch.setenv("FLEET_TOKEN", "wrong")
        assert "401" in remind_child(fleet, Child("one", child.url), Patience())["error"]
        assert comments(server) == []


def test_who_is_asked_and_for_what() -> None:
    draft = Opened(BRANCH, "t", "a", None, True, ("ada", "team b"))
    assert words(draft, "ada", 8).startswith("@ada: this request is open for 8 days: settle its conflict markers")
    assert words(draft, "ada", 8).endswith(f"\n\n{REMINDER}")
    nobody = Opened(BRANCH, "t", "a", None, False, ())
    assert words(nobody, "The team of Ada", 1).startswith("This request is open for a day: merge it")
