"""The fleet on GitHub and GitLab: what reached the children and their code host, and what a fault lets through.

Both hosts are a stand-in of their HTTP (tests/updates/host_server.py); the fleet tool and the children are real.
Jenkins has the same in tests/jenkins/pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.ci import github, gitlab
from tests.ci.runs import Run
from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.fleets import BRANCH, TOKEN, Fleet
from tests.updates.code_host import Repositories, Server
from tests.updates.host_server import serve

WORKFLOW = ".github/workflows/fleet.yml"
READER = "canary-that-may-read"


@dataclass
class Fleets:
    """A fleet, the code host of its children, and what runs its pipeline."""

    fleet: Fleet
    server: Server
    run_pipeline: Callable[..., Run]

    def run(self, kind: str = "main", *, approve: bool = True, token: str = TOKEN) -> Run:
        """Run the pipeline as the schedule would."""
        return self.run_pipeline(kind, approve=approve, token=token)

    def open_requests(self) -> set[str]:
        """Return the children that have an open request."""
        return {
            name.removeprefix("acme/")
            for name, requests in self.server.requests.items()
            if any(one["state"].startswith("open") for one in requests)
        }


@pytest.fixture
def it(system: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleets]:
    """A fleet in which nothing has run yet, on the system."""
    with serve(system) as server:
        server.token = TOKEN
        fleet = Fleet(tmp_path, {"kind": system, "api": server.address, "token_env": f"{system.upper()}_TOKEN"})
        server.repositories = Repositories(tmp_path / "remotes", fleet.environment())
        (tmp_path / "agents").mkdir()
        agents = farm.Agents(tmp_path / "agents", labels={"docker": fleet.agent, "gpu": fleet.agent})
        login = {"registry-release": ("", "")}

        def on_github(kind: str, *, approve: bool, token: str) -> Run:
            assert approve, "act asks no reviewer"
            return github.act(
                fleet.source, agents, login, kind, [WORKFLOW], {}, {"FLEET_TOKEN": token},
                more=fleet.environment(), inputs={"version": ""},
            )  # fmt: skip

        def on_gitlab(kind: str, *, approve: bool, token: str) -> Run:
            tokens = {"GITLAB_TOKEN": {"values": {"fleet-canaries": token, "fleet": token}}}
            options = ["--variable", "FLEET=1", *(["--manual", "fleet others"] if approve else [])]
            return gitlab.pipeline(
                fleet.source, agents, login, kind, request.getfixturevalue("gitlab_tools"), tokens,
                tuple(options), fleet.environment(),
            )  # fmt: skip

        yield Fleets(fleet, server, on_github if system == "github" else on_gitlab)


def jobs(run: Run) -> set[str]:
    """Return the jobs that passed, by the names that both systems share."""
    return {name.removeprefix("fleet ") for name in run.passed}


@pytest.mark.slow
def test_the_others_follow_a_green_canary_and_nothing_is_opened_twice(it: Fleets) -> None:
    it.server.checks["acme/first"] = ["success"]
    for _ in range(2):
        run = it.run()
        assert (jobs(run), run.failed) == ({"canaries", "others"}, set()), run.log
        assert it.open_requests() == it.fleet.pushed() == {"first", "other"}, run.log
    assert [len(requests) for requests in it.server.requests.values() if requests] == [1, 1]
    text = git(it.fleet.bare["first"], "show", f"{BRANCH}:a.txt")
    assert text.startswith("fixed\n"), "the branch has the update"
    assert git(it.fleet.source, "status", "--porcelain") == ""


@pytest.mark.release
def test_without_a_green_canary_the_others_get_nothing(it: Fleets) -> None:
    run = it.run()
    assert jobs(run) == {"canaries"}, run.log
    assert "no canary is green or merged yet" in run.log
    assert it.open_requests() == {"first"}


@pytest.mark.release
def test_a_token_that_the_host_rejects_changes_nothing(it: Fleets) -> None:
    run = it.run(token=READER)
    assert jobs(run) == set(), run.log
    assert "401" in run.log
    assert it.open_requests() == set()


@pytest.mark.release
def test_a_branch_runs_nothing(it: Fleets) -> None:
    assert jobs(it.run("branch")) == set()
    assert (it.fleet.pushed(), it.open_requests()) == (set(), set())


@pytest.mark.release
@pytest.mark.parametrize("system", ["gitlab"])
def test_without_approval_only_the_canaries_get_the_release(it: Fleets) -> None:
    """The manual job waits for a person."""
    run = it.run(approve=False)
    assert jobs(run) == {"canaries"}, run.log
    assert it.open_requests() == {"first"}


def test_on_github_the_reviewers_of_an_environment_approve() -> None:
    """act knows no environments; that the job which pushes to the others has its own is all that can be seen here."""
    file = yaml.safe_load((ROOT / WORKFLOW).read_text())
    assert {name: job["environment"] for name, job in file["jobs"].items()} == {
        "canaries": "fleet-canaries",
        "others": "fleet",
    }
