"""This repository's own pipelines on the three systems: the digest that was smoked is promoted, or none.

Base images are small stand-ins with a list of Debian packages, pushed, listed (by syft) and tagged for real by the
image tools. What `make promote` rejects besides is in tests/images/test_promotion.py.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.answers import TYPES
from tests.ci import farm, jenkins
from tests.ci.children import commit
from tests.ci.parent import ROW, Parent
from tests.ci.runs import SYSTEMS, TAG, Run
from tests.conftest import ROOT, git
from tests.shared import once

PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
UNREAD = ("benchmarks", "docs", "tests", "tools", "templates/locks", *(f"templates/{kind}" for kind in TYPES))


def test_actions_are_pinned_by_commit_with_the_version_beside_it() -> None:
    texts = {file.name: file.read_text() for file in (ROOT / ".github" / "workflows").glob("*.yml")}
    uses = {(name, one) for name, text in texts.items() for one in re.findall(r"uses: (?:&\w+ )?(actions/.+)", text)}
    assert [one for one in uses if not PINNED.fullmatch(one[1])] == []


@pytest.fixture
def parent(template: Path, shared: Path, registry: farm.Registry, tmp_path: Path) -> Parent:
    """A copy of this repository with what the steps of its pipeline read: each job checks everything out."""

    def make(target: Path) -> None:
        shutil.copytree(template, target, ignore=shutil.ignore_patterns(".git"))
        for name in UNREAD:
            shutil.rmtree(target / name)
        git(target, "init", "--quiet", "--initial-branch=main")
        commit(target, "The images")

    shutil.copytree(once(shared / "images-alone", make), tmp_path / "source")
    return Parent(tmp_path / "source", registry, tmp_path)


@pytest.mark.slow
def test_main_promotes_the_digest_that_was_smoked_and_a_night_only_other_packages(
    parent: Parent, run: Callable[..., Run]
) -> None:
    told = parent.run(run, "main")
    assert (told.failed, told.code) == (frozenset(), 0), told.log
    assert told.passed == {"check", "build", "smoke", "promote"}
    [digest] = parent.staged()
    assert parent.released() == {digest}, told.log
    assert git(parent.source, "status", "--porcelain") == ""
    assert not any(secret in told.log for secret in farm.SECRETS)
    (parent.source / "base-images" / ROW / "requirements.in").open("a").write("# another comment\n")
    commit(parent.source, "The same packages")
    told = parent.run(run, "schedule")
    assert (told.failed, told.code) == (frozenset(), 0), told.log
    assert "the packages are those of what was promoted last" in told.log
    assert (len(parent.staged()), parent.released()) == (2, {digest}), told.log


@pytest.mark.slow
@pytest.mark.needs("groovy")
def test_a_row_that_fails_holds_back_only_itself(parent: Parent) -> None:
    """One row is not built: the build is red, and the other row is promoted; its record is kept."""
    other = "plain-cu13"
    (parent.agents.labels["docker"] / f"broken-{other}").touch()
    trace = parent.run(jenkins.trace, "main", row=f"{other}', '{ROW}")
    results = {(stage.name, stage.axes["ROW"]): stage.result for stage in trace.stages if stage.axes and stage.ran}
    assert trace.result == "FAILURE"
    assert results["Build and push", other] == "FAILURE", trace.log
    assert results["Promote", ROW] == "SUCCESS", trace.log
    [digest] = parent.released()
    assert parent.released(other) == set()
    record = json.loads((trace.workdir / "archive" / "build" / "released" / ROW / "released.json").read_text())[ROW]
    assert (record["digest"], record["smoke"]["require"], record["smoke"]["on_a_gpu"]) == (digest, "gpu", True)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, a pattern of its words in the log, the kind of build, and how many images it pushes."""

    arrange: Callable[[Parent], object]
    words: str
    kind: str = "main"
    staged: int = 1
    systems: tuple[str, ...] = SYSTEMS


def file(label: str, name: str, text: str = "") -> Callable[[Parent], object]:
    """Put a file beside the engine and the `make` of an agent, which breaks one of them (standins/)."""
    return lambda parent: (parent.agents.labels[label] / name).write_text(text)


def without_gpu(parent: Parent) -> None:
    (parent.agents.labels["gpu"] / "nvidiactl").unlink()


def release_is_busy(parent: Parent) -> None:
    parent.registry.busy = f"{parent.path}/{ROW}"


def release_with_the_login_of_staging(parent: Parent) -> None:
    parent.credentials["registry-release"] = farm.STAGING_LOGIN


def nothing(parent: Parent) -> None:
    """Leave the build as it is."""


FOREIGN = """sed -i 's/"commit": "..../"commit": "beef/' build/images/smoke/*.json\n"""
FAULTS = {
    "tests fail": Fault(file("docker", "tests-fail"), "1 failed", staged=0),
    "scan fails": Fault(file("docker", "scan-killed"), "illed", staged=0),
    "smoke test fails": Fault(file("gpu", "smoke-fails"), "GPU and CPU differ"),
    "smoke test hangs": Fault(file("gpu", "smoke-hangs"), "imeout", systems=("jenkins",)),
    "smoke test is killed": Fault(file("gpu", "smoke-digest-killed"), "illed"),
    "report is missing": Fault(file("gpu", "smoke-digest-does-nothing"), "smoke"),
    "report of another commit": Fault(file("gpu", "smoke-digest-then", FOREIGN), "about the commit beef"),
    "no GPU on the GPU runner": Fault(without_gpu, "no tag was set"),
    "promotion answers 503": Fault(release_is_busy, "503"),
    "login of staging alone": Fault(release_with_the_login_of_staging, "denied"),
    "credential is missing": Fault(
        lambda it: it.credentials.clear(), "registry-staging'|REGISTRY_PASSWORD is empty", staged=0
    ),
    "branch": Fault(nothing, "", "branch", systems=("jenkins",)),
    "pull request": Fault(nothing, "", "change"),
    "tag": Fault(nothing, "", "tag", systems=("jenkins",)),
    "fork": Fault(nothing, "request of a fork", "fork", staged=0),
    "Dependabot": Fault(nothing, "or of Dependabot", "dependabot", staged=0, systems=("github",)),
}
CELLS = [(system, fault) for fault, case in FAULTS.items() for system in case.systems]


def is_in_ci(system: str, fault: str) -> bool:
    """Tell whether CI runs a cell: each fault on one system in turn. A release runs all."""
    systems = FAULTS[fault].systems
    return systems[list(FAULTS).index(fault) % len(systems)] == system


@pytest.mark.parametrize(
    ("system", "fault"),
    [pytest.param(*cell, marks=pytest.mark.slow if is_in_ci(*cell) else pytest.mark.release) for cell in CELLS],
)
def test_nothing_is_promoted(parent: Parent, run: Callable[..., Run], fault: str) -> None:
    case = FAULTS[fault]
    case.arrange(parent)
    try:
        told = parent.run(run, case.kind, tag=TAG)
    finally:
        parent.registry.busy = "nothing"
    assert re.search(case.words, told.log), told.log
    assert "promote" not in told.passed, told.log
    assert parent.released() == set(), told.log
    assert len(parent.staged()) == case.staged, told.log
