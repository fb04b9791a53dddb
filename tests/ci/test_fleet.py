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
from tests.updates.code_host import Server
from tests.updates.host_server import serve
from tests.updates.remotes import branches

WORKFLOW = ".github/workflows/fleet.yml"
READER = "canary-that-may-read"  # of the environment fleet-plan
BUSY = (503, {"Retry-After": "0"}, '{"message": "later"}')


@dataclass
class Fleets:
    """A fleet, the code host of its children, and what runs its pipeline."""

    fleet: Fleet
    server: Server
    doing: Callable[..., Run]

    def run(self, kind: str = "main", *, approve: bool = True, max_open: str = "", token: str = TOKEN) -> Run:
        """Run the pipeline as the schedule would, or with what a person gives."""
        return self.doing(kind, approve=approve, max_open=max_open, token=token)

    def open_requests(self) -> set[str]:
        """Return the children that have an open request."""
        return {
            name.removeprefix("acme/")
            for name, requests in self.server.requests.items()
            if any(one["state"].startswith("open") for one in requests)
        }

    def nothing_is_out(self) -> None:
        """Assert that neither a child nor its host got anything."""
        assert (self.fleet.pushed(), self.open_requests()) == (set(), set())
        assert [list(branches(bare)) for bare in self.fleet.bare.values()] == [["main"]] * len(self.fleet.bare)
        assert [call for call in self.server.calls if call[0] != "GET"] == []


@pytest.fixture
def it(system: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleets]:
    """A fleet in which nothing has run yet, on the system."""
    with serve(system) as server:
        server.token = TOKEN
        rule = {"match": f"file://{tmp_path}/remotes/", "kind": system, "api": server.address}
        fleet = Fleet(tmp_path, rule | {"token_env": f"{system.upper()}_TOKEN"})
        (tmp_path / "agents").mkdir()
        agents = farm.Agents(tmp_path / "agents", labels={"docker": fleet.agent, "gpu": fleet.agent})
        login = {"registry-release": ("", "")}

        def on_github(kind: str, *, approve: bool, max_open: str, token: str) -> Run:
            assert approve, "act asks no reviewer"
            given = {"FLEET_TEMPLATE": str(fleet.template.path)}
            return github.act(
                fleet.source, agents, login, kind, [WORKFLOW], given, {"FLEET_TOKEN": token},
                more=fleet.environment(), inputs={"version": "", "wave": "canary", "max_open": max_open},
            )  # fmt: skip

        def on_gitlab(kind: str, *, approve: bool, max_open: str, token: str) -> Run:
            tokens = {"GITLAB_TOKEN": {"values": {"fleet-plan": READER, "fleet": token}}}
            given = {"FLEET": "1", "FLEET_TEMPLATE": str(fleet.template.path), "MAX_OPEN": max_open}
            options = [word for name, value in given.items() for word in ("--variable", f"{name}={value}")]
            options += ["--manual", "fleet apply"] if approve else []
            return gitlab.pipeline(
                fleet.source, agents, login, kind, request.getfixturevalue("gitlab_tools"), tokens,
                tuple(options), fleet.environment(),
            )  # fmt: skip

        yield Fleets(fleet, server, on_github if system == "github" else on_gitlab)


def jobs(told: Run) -> set[str]:
    """Return the jobs that passed, by the names that both systems share."""
    return {name.removeprefix("fleet ") for name in told.passed}


@pytest.mark.slow
def test_the_plan_is_applied_and_no_more_is_open_than_allowed(it: Fleets) -> None:
    """Every run starts in an empty folder; what the last one opened is counted all the same."""
    for _ in range(2):
        told = it.run(max_open="1")
        assert (jobs(told), told.failed) == ({"plan", "apply"}, set()), told.log
        assert it.open_requests() == it.fleet.pushed() == {"clean"}, told.log
    assert [len(requests) for requests in it.server.requests.values() if requests] == [1], "it was opened twice"
    text = git(it.fleet.bare["clean"], "show", f"{BRANCH}:a.txt")
    assert text.startswith("fixed\n"), "the branch holds the planned update"
    assert git(it.fleet.source, "status", "--porcelain") == ""


def beside_make(name: str) -> Callable[[Fleets], None]:
    return lambda it: (it.fleet.agent / name).touch()


def without_the_plan(it: Fleets) -> None:
    """Let the plan get lost between the jobs, as an artifact does that has expired."""
    line = "make fleet-apply"
    for name in (WORKFLOW, gitlab.FILE):
        file = it.fleet.source / name
        assert file.read_text().count(line) == 1, name
        file.write_text(file.read_text().replace(line, f"rm build/fleet/plan.json && {line}"))
    git(it.fleet.source, "commit", "--quiet", "--all", "--message=Lose the plan")


@dataclass(frozen=True)
class Fault:
    """What goes wrong, what the log says of it, and how the run is started."""

    arrange: Callable[[Fleets], None]
    words: str
    kind: str = "main"
    token: str = TOKEN


def busy(it: Fleets) -> None:
    it.server.troubles = [BUSY] * 200


FAULTS = {
    "plan is killed": Fault(beside_make("fleet-plan-killed"), "illed"),
    "plan does nothing": Fault(beside_make("fleet-plan-does-nothing"), ""),
    "plan got lost": Fault(without_the_plan, "there is no finished plan"),
    "apply is killed": Fault(beside_make("fleet-apply-killed"), "illed"),
    "token is refused": Fault(lambda _: None, "401", token=READER),
    "host is busy": Fault(busy, "503"),
    "branch": Fault(lambda _: None, "", kind="branch"),
}


@pytest.mark.release
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_pushed(it: Fleets, fault: str) -> None:
    case = FAULTS[fault]
    case.arrange(it)
    told = it.run(case.kind, token=case.token)
    assert case.words in told.log, told.log
    assert "apply" not in jobs(told), told.log
    it.nothing_is_out()


@pytest.mark.release
@pytest.mark.parametrize("system", ["gitlab"])
def test_without_approval_nothing_is_pushed(it: Fleets) -> None:
    """The manual job waits for a person."""
    told = it.run(approve=False)
    assert jobs(told) == {"plan"}, told.log
    it.nothing_is_out()


def test_on_github_the_reviewers_of_an_environment_approve() -> None:
    """act knows no environments; that the job which pushes has one of its own is all that can be seen here."""
    file = yaml.safe_load((ROOT / WORKFLOW).read_text())
    assert {name: job["environment"] for name, job in file["jobs"].items()} == {"plan": "fleet-plan", "apply": "fleet"}
