"""Faults of a child's Jenkinsfile that tests/ci has not on every system: the right stage fails and says why.

A fault starts from a build that checked everything (`checked`) and runs the stages that it concerns, and the release.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.answers import TYPES
from tests.conftest import git
from tests.jenkins.pipelines.breaking import gpu
from tests.jenkins.pipelines.children import CHECKS, KINDS, RELEASING, Builds, said
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.runner import Trace

GPU, IMAGE = "GPU smoke test", "Build and push"
ByType = dict[str, str]  # "" for the types that are not named


@dataclass(frozen=True)
class Fault:
    """What goes wrong, which stages run before the release, which of them says so and how, and how the build ends."""

    arrange: Callable[[Builds], dict[str, Any] | None]
    stage: ByType
    words: ByType
    result: str = "FAILURE"
    runs: tuple[str, ...] | None = None  # that stage, where nothing is said


def hanging_smoke(it: Builds) -> dict[str, Any]:
    gpu("hangs")(it)
    return {"timeouts": {GPU: 3}}


def nothing_done(script: str) -> Callable[[Builds], None]:
    """Put `exit 0` in place of a script."""

    def of(it: Builds) -> None:
        (it.child / "scripts" / script).write_text("#!/bin/sh\nexit 0\n")
        commit(it.child, f"scripts/{script} does nothing")

    return of


def in_pipeline(pattern: str, replacement: str) -> Callable[[Builds], None]:
    """Change one place of the Jenkinsfile."""

    def of(it: Builds) -> None:
        file = it.child / "Jenkinsfile"
        text, count = re.subn(pattern, replacement, file.read_text(), count=1)
        assert count == 1, f"{file}: nothing matches {pattern}"
        file.write_text(text)

    return of


def without_credentials(it: Builds) -> None:
    del it.credentials["registry-staging"], it.credentials["package-index"]


def failing_test(it: Builds) -> None:
    (it.child / "tests" / "test_quick.py").write_text("def test_it():\n    assert 1 == 2\n")
    commit(it.child, "Break it")


def red_report(it: Builds) -> None:
    """Let the tests fail, and their script end well: Jenkins calls such a build unstable."""
    script = it.child / "scripts" / "test"
    script.write_text(
        "#!/bin/sh\nmkdir -p build/test-results build/proof\n"
        'echo \'<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>\' '
        "| tee build/proof/unit.xml >build/test-results/unit.xml\n"
    )
    commit(it.child, "Hide the failure")


def version_is_out(it: Builds) -> dict[str, Any]:
    """The version exists already, with other content."""
    if it.child.name.startswith("library"):
        (it.index.folder / f"{it.child.name.replace('-', '_')}-0.1.0-py3-none-any.whl").write_bytes(b"another")
        return {}
    (next(it.child.glob("src/*/model.py")).parent / "another.py").write_text('"""Another."""\n')
    commit(it.child, "Another")
    assert it.run(branch="another", only=[IMAGE]).result == "SUCCESS"
    git(it.child, "reset", "--quiet", "--hard", "HEAD~1")
    staging = it.repository.replace("ml/", "ml-staging/")
    [waiting] = it.waiting("another").values()
    it.registry.copy(staging, waiting, it.repository, "v0.2.0")
    return {"tag": "v0.2.0"}  # the other faults release v0.1.0


def wheel_without_a_module(it: Builds) -> None:
    """Leave a module out of the wheel that a test needs, one below the package's own folder."""
    package = next(it.child.glob("src/*/model.py")).parent
    (package / "extra").mkdir()
    for name in ("__init__", "names"):
        (package / "extra" / f"{name}.py").write_text('"""More."""\n')
    project = it.child / "pyproject.toml"
    project.write_text(project.read_text().replace("\npackages =", '\nexclude = ["names.py"]\npackages ='))
    text = f"import {package.name}.extra.names\n\n\ndef test_it():\n    assert {package.name}.extra.names.__doc__\n"
    (it.child / "tests" / "test_quick.py").write_text(text)
    commit(it.child, "Leave a module out")


def wheel_without_a_dependency(it: Builds) -> None:
    project = it.child / "pyproject.toml"
    assert '  "numpy>=2",\n' in project.read_text()
    project.write_text(project.read_text().replace('  "numpy>=2",\n', ""))
    commit(it.child, "Declare too little")


RELEASE = {"": "Promote", "library": "Publish"}
FORGET = r"unstash '(image|package)'"
FAULTS = {
    "smoke test hangs": Fault(hanging_smoke, {"": GPU}, {"": "imeout"}, "ABORTED"),
    "smoke test lies": Fault(gpu("lies"), RELEASE, {"": "the smoke report says fail"}, runs=(GPU,)),
    "unit test fails": Fault(failing_test, {"": "Test"}, {"": "assert 1 == 2"}),
    "unit test fails and the script ends well": Fault(red_report, {"": "Test"}, {"": ""}, "UNSTABLE"),
    "credential is missing": Fault(
        without_credentials, {"": IMAGE, "library": "Publish"}, {"": "'registry-staging'", "library": "'package-index'"}
    ),
    "stash is forgotten": Fault(
        in_pipeline(FORGET, ""),
        {"": GPU, "library": "Publish"},
        {"": "build/image.txt is not here", "library": "dist/ holds no wheel"},
    ),
    "promotion is refused": Fault(
        version_is_out, RELEASE, {"": "a version never moves", "library": "was not published"}
    ),
    "lint does nothing": Fault(
        nothing_done("lint"),
        RELEASE,
        {"": "lint is missing: scripts/lint"},
        runs=("Lint", "Test", "Package", IMAGE, GPU),
    ),
    "test does nothing": Fault(nothing_done("test"), {"": "Test"}, {"": "No"}),
    "build does nothing": Fault(nothing_done("build"), {"": IMAGE}, {"": "there is no image"}),
    "push does nothing": Fault(nothing_done("push"), {"": IMAGE}, {"": "No files"}),
    "probe does nothing": Fault(
        in_pipeline("scripts/probe'", "exit 0'"), RELEASE, {"": "probe is missing: scripts/probe"}, runs=(GPU,)
    ),
    "package does nothing": Fault(nothing_done("package"), {"": "Package"}, {"": "No files"}),
    "wheel lacks a module": Fault(
        wheel_without_a_module, {"": "Package"}, {"": "which is in git: .gitignore matches it"}
    ),
    "wheel lacks a dependency": Fault(
        wheel_without_a_dependency,
        {"": "Package"},
        {"": "cannot be imported with the packages that pyproject.toml declares"},
    ),
    "wheel was not tried": Fault(
        in_pipeline("(unstash 'package')", r"\1\nsh 'date >>$(ls dist/*.whl)'"),
        RELEASE,
        {"": "has not tried this very wheel"},
    ),
}
ONLY = {
    "library": ["package does nothing", "wheel lacks a module", "wheel lacks a dependency", "wheel was not tried"],
    "batch": ["build does nothing", "push does nothing", "probe does nothing"],
}
ONLY["service"] = ONLY["batch"]
FAST = dict.fromkeys(FAULTS, "batch") | dict.fromkeys(
    (
        "credential is missing",
        "stash is forgotten",
        "smoke test lies",
        "unit test fails",
        "promotion is refused",
        *ONLY["library"],
    ),
    "library",
)


# CI runs every fault once, with a library or a batch job, whose pipeline is the service's; a release runs the others.
FAULTY = [
    pytest.param(
        project_type,
        fault,
        marks=[
            pytest.mark.slow if project_type == FAST[fault] else pytest.mark.release,
        ],
    )
    for project_type in TYPES
    for fault in FAULTS
    if not any(fault in names for names in ONLY.values()) or fault in ONLY[project_type]
]


@pytest.mark.parametrize(("project_type", "fault"), FAULTY)
def test_a_fault_is_named_and_nothing_is_published(
    checked: Callable[[str], tuple[Builds, Trace]], project_type: str, fault: str
) -> None:
    """The build of a tag fails in the right stage and says why; index, registry and cluster hold what they held."""
    (it, good), case = checked(project_type), FAULTS[fault]
    options: dict[str, Any] = KINDS["tag"] | (case.arrange(it) or {})
    stage = case.stage.get(project_type, case.stage[""])
    release = RELEASE.get(project_type, RELEASE[""])
    before = it.released(), it.published()
    only = {*(case.runs or (stage,)), release} & {*CHECKS[project_type], release}
    trace = it.run(**options, build_number=2, only=only, after=good)
    assert trace.result == case.result, trace.log
    assert trace.stage(stage).result == case.result, trace.log
    words = case.words.get(project_type, case.words[""])
    assert words in said(trace, stage) + (trace.stage(stage).error or "") + trace.log
    assert not {name for name in RELEASING if name != stage} & set(trace.ran), trace.ran
    assert it.deployed() == ""
    assert (it.released(), it.published()) == before
    it.take_back()


@pytest.mark.slow
@pytest.mark.parametrize("project_type", ["library", "batch"])
def test_without_a_fault_the_same_stages_release(
    checked: Callable[[str], tuple[Builds, Trace]], project_type: str
) -> None:
    """What the faults hold back is released without them."""
    it, good = checked(project_type)
    tag = "v0.1.0" if project_type == "library" else "v0.5.0"
    release = RELEASE.get(project_type, RELEASE[""])
    trace = it.run(tag=tag, build_number=2, only={GPU, release}, after=good)
    assert (trace.result, trace.stage(release).result) == ("SUCCESS", "SUCCESS"), trace.log
    assert tag in it.released() or it.published()
    it.take_back()
