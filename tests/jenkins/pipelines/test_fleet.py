"""The fleet's pipeline, executed: planned on one agent, approved by a person, applied from that very plan on another.

fleets.py says what is real. GitHub and GitLab have the same in tests/ci.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.jenkins.pipelines.fleets import BRANCH, TOKEN, Fleet

REPORTS = ("fleet.html", "fleet.json", "fleet.xml")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A fleet in which nothing has run yet."""
    return Fleet(tmp_path)


@pytest.mark.slow
def test_an_approved_plan_is_applied(fleet: Fleet) -> None:
    trace = fleet.run(approve=True)
    assert [(stage.name, stage.result) for stage in trace.stages()] == [
        ("Plan", "UNSTABLE"),  # the report counts the child that conflicts
        ("Approve", "SUCCESS"),
        ("Apply", "SUCCESS"),
    ], trace.log
    assert fleet.pushed() == {"clean", "conflict"}, trace.log
    [stashed] = [event["files"] for event in trace.events if event.step == "stash"]
    kept = {"children", "bundles", "patches", "logs", "plan.json", "lock", *REPORTS}
    assert {file.split("/")[2] for file in stashed} == kept, "clones of children go through the controller"
    text = subprocess.run(
        ["git", "show", f"{BRANCH}:a.txt"], cwd=fleet.bare["clean"], capture_output=True, text=True, check=True
    )
    assert text.stdout.startswith("fixed\n"), "the branch holds the planned update"
    assert TOKEN not in trace.log, "the token is masked"
    made = [line.strip() for line in (fleet.folder / "made.log").read_text().splitlines()]
    assert made == ["fleet-list with the token", "fleet-plan", "fleet-apply with the token"], trace.log


@pytest.mark.release
def test_a_parameter_runs_nothing(fleet: Fleet) -> None:
    mark = fleet.folder / "ran"
    evil = f'$(shell touch {mark}-make)$(touch {mark}-shell)`touch {mark}-tick`"; touch {mark}-quote; #'
    for name in ("TEMPLATE", "VERSION"):
        trace = fleet.run(approve=True, params={"TEMPLATE": str(fleet.template.path)} | {name: evil})
        assert trace.result == "FAILURE", trace.log
    assert [place.name for place in fleet.folder.glob("ran-*")] == []


@pytest.mark.slow
def test_a_plan_that_nobody_approves_pushes_nothing(fleet: Fleet) -> None:
    trace = fleet.run(approve=False)
    assert trace.result == "ABORTED", trace.log
    [asked] = [event for event in trace.events if event.step == "input"]
    assert asked["submitter"] == "fleet-approvers", "everybody who sees the build may approve"
    assert fleet.pushed() == set(), trace.log


@pytest.mark.release
def test_no_more_is_open_than_allowed(fleet: Fleet) -> None:
    """Every run starts in an empty folder; what the last one pushed is counted all the same."""
    for _ in range(2):
        trace = fleet.run(params={"MAX_OPEN": "1"})
        assert trace.stage("Apply").result == "SUCCESS", trace.log
        assert fleet.pushed() == {"clean"}, trace.log


@pytest.mark.slow
def test_without_the_token_nothing_runs(fleet: Fleet) -> None:
    trace = fleet.run(credentials={})
    assert trace.result == "FAILURE", trace.log
    assert "fleet-github" in trace.log
    assert fleet.pushed() == set(), trace.log
