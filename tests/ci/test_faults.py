"""Each fault of a build, on all three systems and in all three types: nothing is released.

A runner may end with 0 where a job never ran, so what reached registry, index and cluster is asked, not the exit code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.answers import TYPES
from tests.ci import github
from tests.ci.conftest import Runs
from tests.ci.runs import quick_checks
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.breaking import gpu, in_smoke, red_in_the_container, without_gpu
from tests.jenkins.pipelines.children import Builds
from tests.jenkins.pipelines.conftest import commit

RELEASING = {"promote", "publish", "deploy"}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, what the log says of it, and whether lint and tests of the child are what it is about."""

    arrange: Callable[[Builds], None]
    words: str
    kind: str = ""  # main, or a tag for a library
    real_checks: bool = False


def leftovers(it: Builds) -> None:
    (it.child / "NOTES.md").write_text("<<<<<<< before updating\n")


def servers_are_busy(it: Builds) -> None:
    it.registry.fails("PUT", f"ml-staging/{it.child.name}/manifests/", 503, times=9)
    if it.child.name.startswith("library"):
        it.index.stop()


def fork_that_edits_scripts(it: Builds) -> None:
    """Let the fork push wherever its tests run, with every credential that it finds."""
    push = "IMAGE=${IMAGE%:*}:stolen scripts/build; IMAGE=${IMAGE%:*}:stolen scripts/push; scripts/promote v9.9.9"
    (it.child / "scripts" / "test").write_text(f"#!/usr/bin/env bash\nenv | grep -E 'PASSWORD|TOKEN'\n{push}\nexit 0\n")
    (it.child / "scripts" / "lint").write_text("#!/usr/bin/env bash\nexit 0\n")


def fork_that_edits_the_pipeline(it: Builds) -> None:
    """Let the fork's own file leave out what keeps forks from pushing."""
    guards = {".github/workflows/ci.yml": r"(?m)^    if: >-\n( {6}.*\n)+", ".gitlab-ci.yml": r"(?m)^  extends: .*\n"}
    for name, guard in guards.items():
        text, count = re.subn(guard, "", (it.child / name).read_text())
        assert count, f"{name}: what keeps forks out?"
        (it.child / name).write_text(text)


def release_with_the_login_of_staging(it: Builds) -> None:
    it.credentials["registry-release"] = farm.STAGING_LOGIN


def failing_test(it: Builds) -> None:
    (it.child / "tests" / "test_quick.py").write_text("def test_it():\n    assert 1 == 2\n")


def red_report(it: Builds) -> None:
    """Let a test fail and scripts/test end well: Jenkins calls such a build unstable, and goes on."""
    script = it.child / "scripts" / "test"
    script.write_text(script.read_text().replace('name="quick"/>', 'name="quick"><failure/></testcase>'))


def forgotten_stash(it: Builds) -> None:
    file = it.child / "Jenkinsfile"
    file.write_text(re.sub("unstash '(image|package)'", "echo 'forgotten'", file.read_text(), count=1))


def does_nothing(script: str) -> Callable[[Builds], None]:
    """Let a script end well without doing anything."""
    return lambda it: (it.child / "scripts" / script).write_text("#!/bin/sh\nexit 0\n") and None


def wheel_without_a_module(it: Builds) -> None:
    """Leave a module out of the wheel that a test needs, one below the package's own folder."""
    package = next(it.child.glob("src/*/model.py")).parent
    (package / "extra").mkdir()
    for name in ("__init__", "names"):
        (package / "extra" / f"{name}.py").write_text('"""More."""\n')
    project = it.child / "pyproject.toml"
    project.write_text(project.read_text().replace("\npackages =", '\nexclude = ["names.py"]\npackages ='))


def wheel_without_a_dependency(it: Builds) -> None:
    project = it.child / "pyproject.toml"
    project.write_text(project.read_text().replace('  "numpy>=2",\n', ""))


def foreign(field: str, start: str) -> str:
    """Return a line that lets the smoke report be about something else."""
    return f"""(runtime smoke "$@"); sed -i 's/"{field}": "{start}/"{field}": "beef/' build/proof/smoke.json; exit"""


FAULTS = {
    "smoke test fails": Fault(gpu("fails"), "GPU and CPU differ"),
    "smoke test skips": Fault(gpu("skips"), "every layer of the smoke test was skipped"),
    "report is missing": Fault(gpu("silent"), "report"),
    "report of another commit": Fault(in_smoke(foreign("commit", "....")), "about the commit beef"),
    "registry or index is busy": Fault(servers_are_busy, "not "),
    "process is killed": Fault(in_smoke("kill -9 $$"), "illed"),
    "test fails in the container alone": Fault(red_in_the_container, "in the container alone", real_checks=True),
    "fork": Fault(fork_that_edits_scripts, "tested; no push, no GPU and no credential", kind="fork", real_checks=True),
    "fork that edits the pipeline": Fault(fork_that_edits_the_pipeline, "", kind="fork"),
    "branch": Fault(lambda _: None, "", kind="branch"),
    "script does nothing": Fault(in_smoke("exit 0"), "report"),
    "no GPU on the GPU runner": Fault(without_gpu, "GS"),
    "leftovers of an update": Fault(leftovers, "conflicts of an update are left in", real_checks=True),
    "smoke report lies": Fault(gpu("lies"), "the smoke report says fail"),
    "unit test fails": Fault(failing_test, "assert 1 == 2", real_checks=True),
    "lint does nothing": Fault(does_nothing("lint"), "lint is missing: scripts/lint"),
}
OF_JENKINS = {
    "smoke test hangs": Fault(gpu("hangs"), "imeout"),
    "test fails and its script ends well": Fault(red_report, ""),
    "stash is forgotten": Fault(forgotten_stash, "run scripts/p"),
}
FAULTS |= OF_JENKINS
OF_IMAGES = {
    "report of another digest": Fault(in_smoke(foreign("image", "[^@]*@sha256:....")), "about the image"),
    "report of another push": Fault(in_smoke(foreign("pushed", "....")), "about the push of beef"),
    "login of staging alone": Fault(release_with_the_login_of_staging, "denied"),
    "test does nothing": Fault(does_nothing("test"), ""),
    "push does nothing": Fault(does_nothing("push"), ""),
    "build does nothing": Fault(does_nothing("build"), "there is no image"),
    "probe does nothing": Fault(does_nothing("probe"), "probe is missing: scripts/probe"),
}
OF_PACKAGES = {
    "package does nothing": Fault(does_nothing("package"), ""),
    "wheel lacks a module": Fault(wheel_without_a_module, "which is in git: .gitignore matches it"),
    "wheel lacks a dependency": Fault(wheel_without_a_dependency, "cannot be imported with only the packages"),
}
SYSTEMS = ("github", "gitlab", "jenkins")
# Jenkins takes the file of the branch that it goes to.
NOT_ON = {"jenkins": {"fork that edits the pipeline"}, "github": OF_JENKINS, "gitlab": OF_JENKINS}
CELLS = [
    (system, project_type, fault)
    for system in SYSTEMS
    for project_type in TYPES
    for fault in FAULTS | (OF_IMAGES if project_type != "library" else OF_PACKAGES)
    if fault not in NOT_ON.get(system, ())
]


def is_in_ci(system: str, project_type: str, fault: str) -> bool:
    """Tell whether CI runs a cell: of each fault one type on each system, in turn; types share the files of a pipeline.

    With three systems and three types, each fault meets every type, and each system too; a release runs all cells.
    """
    turn = SYSTEMS.index(system) + [*FAULTS, *OF_IMAGES, *OF_PACKAGES].index(fault)
    possible = [one for one in TYPES if fault not in (OF_PACKAGES if one != "library" else OF_IMAGES)]
    return possible[turn % len(possible)] == project_type


# `make test` has one of them here.
QUICK = ("github", "batch", "smoke test fails")
FAULTY = [
    pytest.param(*cell, marks=() if cell == QUICK else pytest.mark.slow if is_in_ci(*cell) else pytest.mark.release)
    for cell in CELLS
]


@pytest.mark.parametrize(("system", "project_type", "fault"), FAULTY)
def test_nothing_is_released(builds: Callable[..., Builds], run: Runs, project_type: str, fault: str) -> None:
    it, case = builds(project_type, ci=SYSTEMS), (FAULTS | OF_IMAGES | OF_PACKAGES)[fault]
    if not case.real_checks:
        quick_checks(it.child)
    case.arrange(it)
    commit(it.child, f"A build with a fault: {fault}")
    try:
        told = run(it, case.kind or ("tag" if project_type == "library" else "main"))
    finally:
        it.registry.keeper.faults.clear()
        if fault == "registry or index is busy":
            it.index.stop()
            it.index.start()
    assert case.words in told.log, told.log
    assert not RELEASING & told.passed, told.log
    it.nothing_is_out()
    if case.kind == "fork":
        assert it.staged() == {}, it.staged()
        assert "PASSWORD=" not in told.log, told.log


@pytest.mark.slow
def test_without_a_fault_the_same_build_releases(builds: Callable[..., Builds], run: Runs) -> None:
    """What the faults hold back is released without them."""
    it = builds("batch", ci=("github", "gitlab"))
    quick_checks(it.child)
    commit(it.child, "Quick checks")
    told = run(it, "tag")
    assert told.failed == frozenset(), told.log
    assert set(it.released()) == {"v0.1.0"}, told.log


@pytest.mark.slow
def test_without_a_gpu_runner_nothing_is_released(builds: Callable[..., Builds]) -> None:
    """GitHub waits for a label that nobody has; act leaves the job out and ends with 0."""
    it = builds("batch", ci=("github",))
    quick_checks(it.child)
    commit(it.child, "Quick checks")
    told = github.run(it, "main", labels=("ubuntu-latest", "deploy"))
    assert told.passed == {"check", "build"}, told.log
    it.nothing_is_out()


@pytest.mark.slow
def test_a_late_build_of_an_older_commit_moves_nothing(builds: Callable[..., Builds], run: Runs) -> None:
    it = builds("batch", ci=("github", "gitlab"))
    quick_checks(it.child)
    commit(it.child, "Older")
    next(it.child.glob("src/*/model.py")).with_name("note.py").write_text('"""Newer."""\n')
    commit(it.child, "Newer")
    assert not run(it, "main").failed
    released = it.released()
    git(it.child, "reset", "--quiet", "--hard", "HEAD~1")
    told = run(it, "main")
    assert "promote" in told.failed, told.log
    assert "is of a newer commit already" in told.log
    assert it.released() == released


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_older_build_that_is_approved_late_is_not_deployed(builds: Callable[..., Builds], run: Runs) -> None:
    """It was promoted before the newer one, and waits while that one is approved and deployed."""
    it = builds("batch", ci=SYSTEMS)
    quick_checks(it.child)
    commit(it.child, "Older")
    note = next(it.child.glob("src/*/model.py")).with_name("note.py")
    note.write_text('"""Newer."""\n')
    commit(it.child, "Newer")
    approved(it)
    running = it.deployed()
    assert running
    git(it.child, "reset", "--quiet", "--hard", "HEAD~1")
    told = run(it, "main")
    assert "promote" in told.passed, told.log
    assert "deploy" in told.failed, told.log
    assert "not deployed" in told.log
    assert it.deployed() == running


def approved(it: Builds) -> None:
    """Deploy the commit of a child as its pipeline does, from the agent with the cluster."""
    place, head = f"{it.registry.host}/ml-staging/{it.child.name}", git(it.child, "rev-parse", "HEAD").strip()
    (it.child / "build").mkdir(exist_ok=True)
    (it.child / "build" / "image.txt").write_text(f"{place}@sha256:{'a' * 64}\n{head}\n2026-01-01T00:00:00.0Z\n")
    agent, cluster = it.agents.labels["kubectl"], it.credentials["kubeconfig"]
    around = os.environ | {"PATH": f"{agent}{os.pathsep}{os.environ['PATH']}", "KUBECONFIG": str(cluster)}
    command = ["scripts/deploy", "cron"]
    done = subprocess.run(command, cwd=it.child, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(it.child / "build")
