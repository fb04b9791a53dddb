"""Each fault of a child's build, on the three systems: nothing is released. README.md has the table.

What scripts/promote and scripts/publish reject is tested without a pipeline (test_verdict.py, test_promote.py);
here one report of another commit shows that a pipeline brings the reports to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.ci import farm
from tests.ci.children import Builds, quick_checks
from tests.ci.runs import SYSTEMS, TAG, WITHOUT_SECRETS, Run
from tests.conftest import git

RELEASING = {"promote", "publish", "deploy"}
BOTH = ("batch", "library")


@dataclass(frozen=True)
class Fault:
    """What goes wrong, what the log says of it, the kind of build (main, or a tag for a library), and where it can be.

    real_checks: it is about lint and tests of the child.
    """

    arrange: Callable[[Builds], object]
    words: str
    kind: str = ""
    tag: str = TAG
    types: tuple[str, ...] = BOTH
    systems: tuple[str, ...] = SYSTEMS
    real_checks: bool = False


def nothing(it: Builds) -> None:
    """Leave the build as it is."""


def gpu(fault: str) -> Callable[[Builds], None]:
    """Let the smoke test of the GPU agent fail or hang (standins/smoke.py)."""
    return lambda it: (it.agents.labels["gpu"] / f"smoke-{fault}").touch()


def without_gpu(it: Builds) -> None:
    (it.agents.labels["gpu"] / "nvidiactl").unlink()


def in_smoke(line: str) -> Callable[[Builds], None]:
    """Put a line into scripts/smoke, before it does anything."""

    def of(it: Builds) -> None:
        script = it.child / "scripts" / "smoke"
        head = 'source "$(dirname "$(readlink -f "$0")")/lib.sh"\n'
        assert head in script.read_text()
        script.write_text(script.read_text().replace(head, f"{head}{line}\n", 1))

    return of


def red_in_the_container(it: Builds) -> None:
    text = 'import os\n\n\ndef test_it():\n    assert "STANDIN_ROW" not in os.environ, "in the container alone"\n'
    (it.child / "tests" / "test_quick.py").write_text(text)


def leftovers(it: Builds) -> None:
    (it.child / "NOTES.md").write_text("<<<<<<< before updating\n")


def servers_are_busy(it: Builds) -> None:
    it.registry.busy, it.index.busy = f"ml-staging/{it.child.name}", True


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


def red_report(it: Builds) -> None:
    """Let a test fail and scripts/test end well: Jenkins calls such a build unstable, and goes on."""
    script = it.child / "scripts" / "test"
    script.write_text(script.read_text().replace('name="quick"/>', 'name="quick"><failure/></testcase>'))


def forgotten_stash(it: Builds) -> None:
    file = it.child / "Jenkinsfile"
    file.write_text(re.sub("unstash '(image|package)'", "echo 'forgotten'", file.read_text(), count=1))


def push_does_nothing(it: Builds) -> None:
    (it.child / "scripts" / "push").write_text("#!/bin/sh\nexit 0\n")


ANOTHER = r"""(runtime smoke "$@"); sed -i 's/"commit": "..../"commit": "beef/' build/proof/smoke.json; exit"""
SHELL_TAG = "v1.0$(touch${IFS}%s)"
# The pattern of Jenkins matches no tag with a slash, which both odd tags have.
IMAGES, ACT, YAML = ("batch",), ("github",), ("github", "gitlab")
FAULTS = {
    "smoke test fails": Fault(gpu("fails"), "GPU and CPU differ"),
    "smoke test hangs": Fault(gpu("hangs"), "imeout", systems=("jenkins",)),
    "smoke test leaves no report": Fault(in_smoke("exit 0"), "report"),
    "smoke report of another commit": Fault(in_smoke(ANOTHER), "about the commit beef"),
    "process is killed": Fault(in_smoke("kill -9 $$"), "illed"),
    "no GPU on the GPU runner": Fault(without_gpu, "GS"),
    "no runner has a GPU": Fault(lambda it: it.agents.labels.pop("gpu"), "", systems=("github", "jenkins")),
    "leftovers of an update": Fault(leftovers, "conflicts of an update are left in", real_checks=True),
    "test fails in the container": Fault(red_in_the_container, "in the container alone", real_checks=True),
    "test fails and its script ends well": Fault(red_report, "", systems=("jenkins",)),
    "push does nothing": Fault(push_does_nothing, "", types=IMAGES),
    "stash is forgotten": Fault(forgotten_stash, "run scripts/p", systems=("jenkins",)),
    "registry or index is busy": Fault(servers_are_busy, "not "),
    "login of staging alone": Fault(release_with_the_login_of_staging, "denied", types=IMAGES),
    "fork": Fault(fork_that_edits_scripts, "tested; no push, no GPU and no credential", "fork", real_checks=True),
    "fork that edits the pipeline": Fault(fork_that_edits_the_pipeline, "", "fork", systems=YAML),
    "fork that is gone": Fault(nothing, "request of a fork", "gone", types=IMAGES, systems=ACT),
    "Dependabot": Fault(nothing, "or of Dependabot, linted and tested", "dependabot", types=IMAGES, systems=ACT),
    "tag that a shell could run": Fault(nothing, "is not a tag", "tag", tag=SHELL_TAG, types=IMAGES, systems=YAML),
    "tag with a slash": Fault(nothing, "is not a tag", "tag", tag="v1/2", types=IMAGES, systems=YAML),
    "tag that is called main": Fault(nothing, "", "tag", tag="main", types=IMAGES, systems=("github", "jenkins")),
}
CELLS = [(system, one, fault) for fault, case in FAULTS.items() for system in case.systems for one in case.types]


def is_in_ci(system: str, project_type: str, fault: str) -> bool:
    """Tell whether CI runs a cell: each fault on each system, with one type in turn. A release runs all."""
    types = FAULTS[fault].types
    return types[(SYSTEMS.index(system) + list(FAULTS).index(fault)) % len(types)] == project_type


FAULTY = [pytest.param(*cell, marks=pytest.mark.slow if is_in_ci(*cell) else pytest.mark.release) for cell in CELLS]


@pytest.mark.parametrize(("system", "project_type", "fault"), FAULTY)
def test_nothing_is_released(
    builds: Callable[..., Builds], run: Callable[..., Run], project_type: str, fault: str
) -> None:
    it, case = builds(project_type), FAULTS[fault]
    if not case.real_checks:
        quick_checks(it.child)
    case.arrange(it)
    git(it.child, "add", "--all")
    git(it.child, "commit", "--quiet", "--allow-empty", f"--message=A build with a fault: {fault}")
    kind, marker = case.kind or ("tag" if project_type == "library" else "main"), it.agents.folder / "a-shell-ran-it"
    try:
        told = it.run(run, kind, tag=case.tag.replace("%s", str(marker)))
    finally:
        it.registry.busy, it.index.busy = "nothing", False
    assert case.words in told.log, told.log
    assert not RELEASING & told.passed, told.log
    it.nothing_is_out()
    assert not marker.exists(), "a shell ran the name of the tag"
    if case.kind in WITHOUT_SECRETS:
        assert it.staged() == {}, it.staged()
        assert "PASSWORD=" not in told.log, told.log
