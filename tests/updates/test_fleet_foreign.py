"""Requests of other people: with this tool's line in their text, from a branch of its name; drafts that they made."""

from __future__ import annotations

from typing import Any

import pytest
from fleetkit.children import FleetError
from fleetkit.requests import Look, branch_in, signed

from tests.updates.code_host import HEAD, Server
from tests.updates.test_fleet_hosts import BRANCH, KINDS, host_of, is_open, opened

OLDER = "template/v1.0.0"


def body(request: dict[str, Any]) -> str:
    """Return the text of a request."""
    return str(request["body"] if "body" in request else request["description"])


def add(server: Server, kind: str, text: str, branch: str, base: str = "main", **more: Any) -> dict[str, Any]:
    """Put the request of a person on the host; with `repo` from another repository."""
    project = more.get("project", "acme/one")
    known = server.requests.setdefault(project, [])
    number, repo = len(known) + 1, more.get("repo", server.number(project))
    at = {"title": "Mine", "created_at": "2026-01-02T03:04:05Z"}
    if kind == "github":
        request = at | {
            "body": text, "head": {"label": f"acme:{branch}", "ref": branch, "sha": HEAD, "repo": {"id": repo}},
            "base": {"ref": base}, "number": number, "state": "open", "merged_at": None, "draft": False,
            "node_id": f"{project}#{number}", "html_url": f"https://example.com/{project}/{number}",
            "url": f"{server.address}/repos/{project}/pulls/{number}", "requested_reviewers": [],
        }  # fmt: skip
    else:
        request = at | {
            "description": text, "source_branch": branch, "target_branch": base, "source_project_id": repo, "sha": HEAD,
            "id": number, "iid": number, "state": "opened", "web_url": f"https://example.com/{project}/{number}",
        }  # fmt: skip
    known.append(request)
    return request


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("branch", "more"), [("fix-of-ada", {}), (OLDER, {"repo": 99})], ids=["a branch of their own", "a fork"]
)
def test_a_copied_line_makes_no_request_ours(
    kind: str, branch: str, more: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collaborator copies the text of an older request; a fork in the same organisation has a branch of its name."""
    with host_of(kind, monkeypatch) as (server, host):
        text = signed("What I want", OLDER)
        theirs = add(server, kind, text, branch, **more)
        assert host.opened() == []
        opened(host)
        assert (is_open(theirs), body(theirs), theirs["title"]) == (True, text, "Mine"), "it was superseded"
        assert [one.branch for one in host.opened()] == [BRANCH]
        server.checks["acme/one"] = ["success"]
        assert host.merge_when_green(OLDER, HEAD) == ""
        assert host.look(OLDER) == Look()
        assert host.close(OLDER) is False
        assert is_open(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_opened_from_our_branch_stays_theirs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        theirs = add(server, kind, "My words", BRANCH)
        server.checks["acme/one"] = ["success"]
        assert opened(host) == "https://example.com/acme/one/1"
        assert (body(theirs), theirs["title"]) == ("My words", "Mine"), "their text was written over"
        assert host.merge_when_green(BRANCH, HEAD) == ""
        with pytest.raises(FleetError, match="is not this tool's own: it is left alone"):
            host.close(BRANCH)
        assert is_open(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_goes_into_the_default_branch_brings_the_update(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner takes our branch into another one too, say to try it there."""
    with host_of(kind, monkeypatch) as (server, host):
        aside = add(server, kind, "To try it", BRANCH, base="staging")
        server.checks["acme/one"] = ["success"]
        assert host.merge_when_green(BRANCH, HEAD) == ""
        aside["merged_at"] = "2026-01-02T03:04:05Z"
        aside["state"] = "closed" if kind == "github" else "merged"
        assert host.look(BRANCH) == Look(), "merged elsewhere counts as merged"
        assert host.closed(BRANCH) == ""
        opened(host)
        assert host.look(BRANCH).state == "green"


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_a_browser_wrote_again_is_still_ours(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text fields of browsers end lines by CR LF."""
    with host_of(kind, monkeypatch) as (server, host):
        opened(host)
        [request] = server.requests["acme/one"]
        text = body(request).replace("\n", "\r\n") + "I looked.\r\n"
        request["body" if kind == "github" else "description"] = text
        assert [one.branch for one in host.opened()] == [BRANCH]


def test_a_line_in_a_file_name_names_no_branch() -> None:
    evil = "conflict:\n- `a\n<!-- fleet: template/v9.9.9 -->\n`"
    assert branch_in(signed(evil, BRANCH)) == BRANCH
    assert branch_in("<!-- fleet: taken-back -->\n<!-- fleet: draft -->") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_that_conflicts_by_now_becomes_a_draft_and_merges_by_no_program(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        opened(host)
        server.checks["acme/one"] = ["pending"]
        assert host.merge_when_green(BRANCH, HEAD) == "merges when green"
        host.request(BRANCH, "main", "Update", "text", True)
        [request] = server.requests["acme/one"]
        assert request.get("draft") or str(request["title"]).startswith("Draft: ")
        assert kind == "gitlab" or not request.get("auto"), "GitHub would merge the markers once they are green"
        opened(host)
        assert not request.get("draft")
        assert request["title"] == "Update", "what the tool made a draft is ready again"


def test_where_none_is_offered_the_title_of_an_open_one_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of("github", monkeypatch) as (server, host):
        opened(host)
        server.no_drafts = {"acme/one"}
        host.request(BRANCH, "main", "Update", "text", True)
        assert server.requests["acme/one"][0]["title"] == "Do not merge yet: Update"


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_that_a_person_made_stays_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with host_of(kind, monkeypatch) as (server, host):
        opened(host)
        [request] = server.requests["acme/one"]
        request.update({"draft": True} if kind == "github" else {"title": "[Draft] wait for Monday"})
        opened(host)
        assert request["draft"] if kind == "github" else str(request["title"]).startswith("Draft: ")
        for said in ("pending", "success"):
            server.checks["acme/one"] = [said]
            assert host.merge_when_green(BRANCH, HEAD) == ""
        assert ("AUTOMERGE", HEAD) not in server.calls
