"""The fleet's pipeline on the three systems: what reached the children and their code host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.ci.fleets import PIPELINE, TOKEN, Fleet
from tests.ci.runs import Run
from tests.conftest import ROOT, git
from tests.updates.code_host import serve

ASKING = [("jenkins", pytest.mark.slow), ("gitlab", pytest.mark.release)]  # a person, in the build


@pytest.fixture
def fleet(system: str, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet in which nothing has run yet. The children are on GitHub or on GitLab, Jenkins takes those of GitHub."""
    host = "gitlab" if system == "gitlab" else "github"
    with serve(host, tmp_path / "remotes", TOKEN) as server:
        yield Fleet(tmp_path, host, server)


@pytest.mark.slow
def test_the_others_follow_a_green_canary(fleet: Fleet, run: Callable[..., Run]) -> None:
    told = fleet.run(run)
    assert (told.passed, told.failed) == ({"canaries"}, {"others"}), told.log
    assert "no canary is green or merged yet" in told.log
    assert fleet.open_requests() == fleet.pushed() == {"first"}
    fleet.server.checks["acme/first"] = ["success"]
    told = fleet.run(run)
    assert (told.passed, told.failed) == ({"canaries", "others"}, set()), told.log
    assert fleet.open_requests() == fleet.pushed() == {"first", "other"}, told.log
    assert [len(requests) for requests in fleet.server.pulls.values() if requests] == [1, 1], "opened twice"
    assert fleet.world.read("first", "a.txt").startswith("fixed\n"), "the branch has the update"
    assert git(fleet.source, "status", "--porcelain") == ""
    assert TOKEN not in told.log


@pytest.mark.parametrize("system", [pytest.param(name, marks=mark) for name, mark in ASKING])
def test_without_approval_only_the_canaries_get_the_release(fleet: Fleet, run: Callable[..., Run]) -> None:
    fleet.server.checks["acme/first"] = ["success"]
    told = fleet.run(run, approve=False)
    assert told.passed == {"canaries"}, told.log
    assert fleet.open_requests() == {"first"}


def test_who_approves_is_named() -> None:
    """act knows no environments, and in Jenkins everybody who sees a build approves an input without a submitter."""
    jobs = yaml.safe_load((ROOT / PIPELINE.github[0]).read_text())["jobs"]
    assert [job["environment"] for job in jobs.values()] == ["fleet-canaries", "fleet"]
    assert "FLEET_APPROVERS?.trim() ?: 'fleet-approvers'" in (ROOT / PIPELINE.jenkins).read_text()


@pytest.mark.release
@pytest.mark.parametrize(("system", "kind"), [("github", "dispatch"), ("gitlab", "branch")])
def test_a_branch_runs_nothing(fleet: Fleet, run: Callable[..., Run], kind: str) -> None:
    """The job of Jenkins builds main alone."""
    assert fleet.run(run, kind).passed == set()
    assert (fleet.pushed(), fleet.open_requests()) == (set(), set())
