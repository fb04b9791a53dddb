"""The fleet's pipeline, executed: planned on one agent, approved by a person, applied from that very plan on another.

Real: the fleet tool, the children's repositories, the updates, the children's own scripts and what is pushed. The
`make` of the agents sets up no environment and takes the Python that runs the tests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, git
from tests.jenkins.runner import Trace, run_pipeline
from tests.updates.copiers import copier_at
from tests.updates.remotes import branches, release_first, release_second, write_fleet
from tests.updates.tiny import TEN_LINES, Template, make_child

BRANCH = "template/v2.0.0"
TOKEN = "canary-of-the-fleet"
REPORTS = ("fleet.html", "fleet.json", "fleet.xml")
MAKE = """\
#!/bin/sh
echo "$1 ${{GITHUB_TOKEN:+with the token}}" >>{log}
exec "$(dirname "$0")/make.sh" "$@"
"""
EDITS: dict[str, dict[str, str | None]] = {"clean": {"own.txt": "own\n"}, "conflict": {"a.txt": "mine\n" + TEN_LINES}}


class Fleet:
    """Two children on bare repositories, this repository's fleet tool in a repository of its own, and an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = Template(folder / "template", copier_at(folder / "home"))
        release_first(self.template)
        self.bare = {name: self._child(name, edits) for name, edits in EDITS.items()}
        release_second(self.template)
        self.source = folder / "parent"
        for room in ("hooks", "runtime"):
            shutil.copytree(ROOT / room, self.source / room, ignore=shutil.ignore_patterns("__pycache__"))
        (self.source / "base-images").mkdir()
        shutil.copy(ROOT / "base-images" / "catalog.yml", self.source / "base-images")
        (self.source / "Makefile").write_text(
            "SHELL := /bin/bash\ninclude hooks/updates.mk\nbuild/ready:\n\ttouch $@\n"
        )
        host = {"match": "https://example.com/", "kind": "github", "token_env": "GITHUB_TOKEN"}
        shutil.copy(write_fleet(folder, dict.fromkeys(EDITS, "canary"), [host]), self.source / "fleet.yml")
        git(self.source, "init", "--quiet", "--initial-branch=main")
        git(self.source, "add", "--all")
        git(self.source, "commit", "--quiet", "--message=The fleet")
        self.agent = folder / "agent"
        self.agent.mkdir()
        shutil.copy(Path(__file__).with_name("standins") / "make.sh", self.agent / "make.sh")
        (self.agent / "make").write_text(MAKE.format(log=folder / "made.log"))
        (self.agent / "make").chmod(0o755)

    def _child(self, name: str, edits: dict[str, str | None]) -> Path:
        child = make_child(self.template, self.folder / f"{name}-work", "--vcs-ref", "v1.0.0", edits=edits)
        (child.path / "scripts").mkdir()
        for script in ("setup", "test"):
            (child.path / "scripts" / script).write_text('#!/bin/sh\n[ -z "$GITHUB_TOKEN" ]\n')
            (child.path / "scripts" / script).chmod(0o755)
        child.commit("The child's scripts")
        bare = self.folder / "remotes" / "acme" / f"{name}.git"
        child.git("clone", "--quiet", "--bare", str(child.path), str(bare))
        return bare

    def run(self, **options: Any) -> Trace:
        """Run the pipeline; the credential is there unless `options` say otherwise."""
        given = {"credentials": {"fleet-github": TOKEN}, "params": {"TEMPLATE": str(self.template.path)}}
        tools = {"STANDIN_MAKE": shutil.which("make") or "make", "STANDIN_PYTHON": sys.executable}
        return run_pipeline(
            self.source / "hooks" / "fleet.Jenkinsfile",
            self.source,
            workdir=self.folder / "work",
            labels={"linux": self.agent},
            env=self.template.copier.environment() | tools,
            **(given | options),
        )

    def pushed(self) -> set[str]:
        """Return the children that got a branch."""
        return {name for name, bare in self.bare.items() if BRANCH in branches(bare)}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A fleet in which nothing has run yet."""
    return Fleet(tmp_path)


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


@pytest.mark.slow
def test_a_parameter_runs_nothing(fleet: Fleet) -> None:
    mark = fleet.folder / "ran"
    evil = f'$(shell touch {mark}-make)$(touch {mark}-shell)`touch {mark}-tick`"; touch {mark}-quote; #'
    for name in ("TEMPLATE", "VERSION"):
        trace = fleet.run(approve=True, params={"TEMPLATE": str(fleet.template.path)} | {name: evil})
        assert trace.result == "FAILURE", trace.log
    assert [place.name for place in fleet.folder.glob("ran-*")] == []


def test_a_plan_that_nobody_approves_pushes_nothing(fleet: Fleet) -> None:
    trace = fleet.run(approve=False)
    assert trace.result == "ABORTED", trace.log
    assert fleet.pushed() == set(), trace.log


def test_without_the_token_nothing_runs(fleet: Fleet) -> None:
    trace = fleet.run(credentials={})
    assert trace.result == "FAILURE", trace.log
    assert "fleet-github" in trace.log
    assert fleet.pushed() == set(), trace.log
