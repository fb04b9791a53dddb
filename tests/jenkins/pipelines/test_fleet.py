"""The fleet's pipeline, executed: the canaries get the release, a person approves, then the others get it.

fleets.py describes what is real. GitHub and GitLab have the same in tests/ci.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jenkins.pipelines.fleets import BRANCH, TOKEN, Fleet
from tests.updates.code_host import Repositories, Server
from tests.updates.host_server import serve
from tests.updates.remotes import branches


@pytest.fixture
def server() -> Iterator[Server]:
    """A stand-in for GitHub."""
    with serve("github") as state:
        state.token = TOKEN
        yield state


@pytest.fixture
def fleet(server: Server, tmp_path: Path) -> Fleet:
    """A fleet in which nothing has run yet."""
    made = Fleet(tmp_path, {"kind": "github", "api": server.address, "token_env": "GITHUB_TOKEN"})
    server.repositories = Repositories(tmp_path / "remotes", made.template.copier.environment())
    return made


@pytest.mark.slow
def test_the_others_follow_a_green_canary_after_approval(fleet: Fleet, server: Server) -> None:
    server.checks["acme/first"] = ["success"]
    trace = fleet.run(approve=True)
    assert {stage.name: stage.result for stage in trace.stages()} == dict.fromkeys(
        ("Canaries", "Approve", "Others"), "SUCCESS"
    ), trace.log
    assert fleet.pushed() == {"first", "other"}, trace.log
    assert TOKEN not in trace.log, "the token is masked"


@pytest.mark.slow
def test_without_a_green_canary_the_others_get_nothing(fleet: Fleet) -> None:
    trace = fleet.run(approve=True)
    assert trace.stage("Others").result == "FAILURE", trace.log
    assert "no canary is green or merged yet" in trace.log
    assert fleet.pushed() == {"first"}, trace.log


@pytest.mark.slow
def test_without_approval_only_the_canaries_get_the_release(fleet: Fleet) -> None:
    trace = fleet.run(approve=False)
    assert trace.result == "ABORTED", trace.log
    [asked] = [event for event in trace.events if event.step == "input"]
    assert asked["submitter"] == "fleet-approvers", "everybody who sees the build may approve"
    assert fleet.pushed() == {"first"}, trace.log


@pytest.mark.release
def test_a_parameter_runs_nothing(fleet: Fleet) -> None:
    mark = fleet.folder / "ran"
    evil = f'$(shell touch {mark}-make)$(touch {mark}-shell)`touch {mark}-tick`"; touch {mark}-quote; #'
    trace = fleet.run(approve=True, params={"VERSION": evil})
    assert trace.result == "FAILURE", trace.log
    assert [place.name for place in fleet.folder.glob("ran-*")] == []


@pytest.mark.slow
def test_without_the_token_nothing_runs(fleet: Fleet) -> None:
    trace = fleet.run(credentials={})
    assert trace.result == "FAILURE", trace.log
    assert "fleet-github" in trace.log
    assert fleet.pushed() == set(), trace.log
    assert [BRANCH in branches(bare) for bare in fleet.bare.values()] == [False, False]
