"""The children's pipelines, executed: what runs where, what is published, and what a fault holds back.

farm.py says what is real here and what stands in. Never run: a Jenkins server, a GPU, a cluster.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.runner import Trace, run_pipeline

FIRST = {"No leftovers of an update": "docker", "Lint": "docker", "Test": "docker"}
CHECKS = {
    "library": FIRST | {"Package": "docker", "GPU smoke test": "gpu"},
    "batch": FIRST | {"Build and push": "docker", "GPU smoke test": "gpu"},
    "service": FIRST | {"Build and push": "docker", "GPU smoke test": "gpu"},
}
RELEASE = {"Promote": "docker"}
DEPLOY = {"Approve": None, "Deploy": "kubectl"}
KINDS: dict[str, dict[str, Any]] = {
    "main": {"branch": "main"},
    "branch": {"branch": "feature/faster"},
    "pull request": {"change": "12"},
    "tag": {"tag": "v0.1.0"},
}
EXPECTED = {  # the stages after the checks
    ("library", "tag"): {"Publish": "docker"},
    ("batch", "main"): RELEASE | DEPLOY,
    ("batch", "tag"): RELEASE,
    ("service", "main"): RELEASE | DEPLOY,
    ("service", "tag"): RELEASE,
}
NUMBERS = itertools.count(1)
SECRETS = (farm.STAGING_LOGIN[1], farm.RELEASE_LOGIN[1], farm.INDEX_LOGIN[1])


class Builds:
    """A child, its agents, and what its pipeline did."""

    def __init__(self, child: Path, agents: farm.Agents, servers: tuple[farm.Registry, farm.Index]) -> None:
        self.child, self.agents = child, agents
        self.registry, self.index = servers
        self.repository = f"ml/{child.name}"
        cluster = agents.folder / "kubeconfig"
        cluster.write_text("cluster: test\n")
        self.credentials: dict[str, Any] = {
            "registry-staging": farm.STAGING_LOGIN,
            "registry-release": farm.RELEASE_LOGIN,
            "package-index": farm.INDEX_LOGIN,
            "kubeconfig": cluster,
        }

    def run(self, **options: Any) -> Trace:
        """Run the child's Jenkinsfile."""
        options.setdefault("env", farm.environment(self.index))
        return run_pipeline(
            self.child / "Jenkinsfile",
            self.child,
            labels=dict(self.agents.labels),
            credentials=self.credentials,
            workdir=self.agents.folder / "work",
            **options,
        )

    def released(self) -> dict[str, str]:
        """Return the tags of what is released."""
        return self.registry.tags(self.repository)

    def staged(self) -> dict[str, str]:
        """Return the tags of what was pushed."""
        return self.registry.tags(self.repository.replace("ml/", "ml-staging/"))

    def published(self) -> set[str]:
        """Return the files of this child in the package index."""
        return {name for name in self.index.files() if name.startswith(self.child.name.replace("-", "_"))}

    def deployed(self) -> str:
        """Return what the cluster was told, "" when nothing."""
        file = self.agents.labels["kubectl"] / "applied.yaml"
        return file.read_text() if file.exists() else ""

    def nothing_is_out(self) -> None:
        """Assert that neither index nor registry nor cluster got a release."""
        assert (self.released(), self.published(), self.deployed()) == ({}, set(), "")


@pytest.fixture
def builds(
    make_child: Callable[..., Path], python_of: Callable[[AnswerSet], Path], servers: Any, tmp_path: Path
) -> Callable[..., Builds]:
    """Return a function that gives a child of a type with a farm of its own, with a GPU where a GPU should be."""

    def of(project_type: str, framework: str = "plain", *, shellcheck: bool = False, **options: Any) -> Builds:
        answers = AnswerSet(project_type, framework)
        child = make_child(answers, name=f"{project_type}-{framework}-{next(NUMBERS)}", **options)
        agents = farm.Agents(tmp_path / "agents", python_of(answers), shellcheck)
        agents.add("docker")
        agents.add("gpu", gpu=True)
        agents.add("kubectl", cluster=True)
        return Builds(child, agents, servers)

    return of


def ran(trace: Trace) -> dict[str, str | None]:
    """Return the stages with steps that ran, and the label of each."""
    groups = {name for stage in trace.all_stages for name in stage.path[:-1]}
    return {
        stage.name: stage.label for stage in trace.all_stages if stage.name in trace.ran and stage.name not in groups
    }


def said(trace: Trace, stage: str) -> str:
    """Return what the commands of a stage printed."""
    return "\n".join(command.output for command in trace.stage(stage).commands)


def test_the_pipeline_does_not_depend_on_the_framework() -> None:
    """`make test` runs plain children: theirs is the pipeline of all (tests/templates checks every Jenkinsfile)."""
    assert "framework" not in (ROOT / "templates" / "shared" / "Jenkinsfile").read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("project_type", TYPES)
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=[] if name == "plain" else pytest.mark.slow) for name in FRAMEWORKS]
)
def test_what_runs_where_and_what_is_published(
    builds: Callable[..., Builds], framework: str, project_type: str, kind: str
) -> None:
    """Every build checks everything; only main and a tag publish, the digest that was smoked and nothing else.

    With torch and tensorflow the child's own unit tests run too, not one in their place.
    """
    it = builds(project_type, framework, shellcheck=kind == "main", quick=framework == "plain")
    trace = it.run(**KINDS[kind])
    assert trace.result == "SUCCESS", trace.log
    newest = {"Newest build of a branch": None} if kind in ("branch", "pull request") else {}
    assert ran(trace) == newest | CHECKS[project_type] | EXPECTED.get((project_type, kind), {})
    smoke = trace.stage("GPU smoke test")
    assert smoke.locks, "the GPU was used without its lock"
    assert trace.stage("Test").reports[0].total >= 1
    assert smoke.reports[0].total >= 2
    assert not any(secret in trace.log for secret in SECRETS)
    if project_type == "library":
        files = {f"{it.child.name.replace('-', '_')}-0.1.0{end}" for end in ("-py3-none-any.whl", ".tar.gz")}
        assert it.published() == (files if kind == "tag" else set())
        return
    [digest] = set(it.staged().values())
    assert it.released() == {"main": {"main": digest}, "tag": {"v0.1.0": digest}}.get(kind, {})
    assert f"@{digest}" in said(trace, "GPU smoke test"), "the smoke test did not take the image by its digest"
    assert (f"/{it.child.name}@{digest}" in it.deployed()) == (kind == "main")


@dataclass(frozen=True)
class Fault:
    """What goes wrong, which stage says so and how, and how the build ends."""

    arrange: Callable[[Builds], dict[str, Any] | None]
    stage: dict[str, str]  # by type, "" for the others
    words: dict[str, str]
    result: str = "FAILURE"
    kind: dict[str, Any] = field(default_factory=lambda: KINDS["tag"])


def without_gpu(it: Builds) -> None:
    (it.agents.labels["gpu"] / "nvidiactl").unlink()


def gpu(fault: str) -> Callable[[Builds], None]:
    return lambda it: (it.agents.labels["gpu"] / f"smoke-{fault}").touch()


def nothing_done(script: str) -> Callable[[Builds], None]:
    """Put `exit 0` in place of a script."""

    def of(it: Builds) -> None:
        (it.child / "scripts" / script).write_text("#!/bin/sh\nexit 0\n")
        commit(it.child, f"scripts/{script} does nothing")

    return of


def report_of_another(what: str) -> Callable[[Builds], None]:
    """Let the report that reaches the release be about another commit, or another push."""
    change = {"commit": 's/"commit": "..../"commit": "beef/', "push": 's/"pushed": "..../"pushed": "1999/'}[what]

    def of(it: Builds) -> None:
        file = it.child / "Jenkinsfile"
        text, count = re.subn(
            r"(unstash 'smoke')", rf"\1\nsh '''sed -i '{change}' build/proof/smoke.json'''", file.read_text()
        )
        assert count == 1
        file.write_text(text)
        commit(it.child, "Another report")

    return of


def without_credentials(it: Builds) -> None:
    del it.credentials["registry-staging"], it.credentials["package-index"]


def failing_test(it: Builds) -> None:
    (it.child / "tests" / "test_quick.py").write_text("def test_it():\n    assert 1 == 2\n")
    commit(it.child, "Break it")


def hanging_smoke(it: Builds) -> dict[str, Any]:
    (it.agents.labels["gpu"] / "smoke-hangs").touch()
    return {"timeouts": {"GPU smoke test": 8}}


def forgotten_stash(it: Builds) -> None:
    file = it.child / "Jenkinsfile"
    text, count = re.subn(r"\n *unstash '\w+'", "", file.read_text(), count=1)
    assert count == 1
    file.write_text(text)
    commit(it.child, "Forget to unstash")


def servers_down(it: Builds) -> None:
    it.registry.stop()
    it.index.stop()


def version_is_out(it: Builds) -> None:
    """The version exists already, from another commit."""
    first = it.run(**KINDS["tag"])
    assert first.result == "SUCCESS", first.log
    note = next(it.child.glob("src/*/model.py")).with_name("note.py")
    note.write_text('"""Another commit."""\n')
    commit(it.child, "Change it under the same version")


IMAGE = "Build and push"
RELEASING = {"": "Promote", "library": "Publish"}
FAULTS = {
    "no GPU on the GPU agent": Fault(without_gpu, {"": "GPU smoke test"}, {"": "GS"}),
    "smoke test fails": Fault(gpu("fails"), {"": "GPU smoke test"}, {"": "GPU and CPU differ"}),
    "credential is missing": Fault(
        without_credentials, {"": IMAGE, "library": "Publish"}, {"": "'registry-staging'", "library": "'package-index'"}
    ),
    "unit test fails": Fault(failing_test, {"": "Test"}, {"": "assert 1 == 2"}),
    "smoke test hangs": Fault(hanging_smoke, {"": "GPU smoke test"}, {"": "imeout"}, "ABORTED"),
    "stash is forgotten": Fault(
        forgotten_stash,
        {"": "GPU smoke test", "library": "Publish"},
        {"": "build/image.txt is not here", "library": "dist/ holds no wheel"},
    ),
    "registry is down": Fault(
        servers_down, {"": IMAGE, "library": "Publish"}, {"": "does not answer", "library": "was not published"}
    ),
    "promotion is refused": Fault(
        version_is_out,
        {"": "Promote", "library": "Publish"},
        {"": "a version never moves", "library": "was not published"},
    ),
    "smoke test lies": Fault(gpu("lies"), RELEASING, {"": "the smoke report says fail"}),
    "smoke test skips": Fault(gpu("skips"), RELEASING, {"": "every layer of the smoke test was skipped"}),
    "smoke test is silent": Fault(gpu("silent"), {"": "GPU smoke test", "library": "Publish"}, {"": "No"}),
    "report of another commit": Fault(report_of_another("commit"), RELEASING, {"": "about the commit beef"}),
    "report of another push": Fault(report_of_another("push"), RELEASING, {"": "about the push of 1999"}),
    "lint does nothing": Fault(nothing_done("lint"), {"": "Lint"}, {"": "No files"}),
    "test does nothing": Fault(nothing_done("test"), {"": "Test"}, {"": "No"}),
    "smoke does nothing": Fault(nothing_done("smoke"), {"": "GPU smoke test"}, {"": "No"}),
    "build does nothing": Fault(nothing_done("build"), {"": IMAGE}, {"": "there is no image"}),
    "push does nothing": Fault(nothing_done("push"), {"": IMAGE}, {"": "No files"}),
    "probe does nothing": Fault(nothing_done("probe"), RELEASING, {"": "probe is missing: scripts/probe"}),
    "package does nothing": Fault(nothing_done("package"), {"": "Package"}, {"": "No files"}),
}
ONLY = {
    "library": ["package does nothing"],
    "batch": ["report of another push", "build does nothing", "push does nothing", "probe does nothing"],
}
ONLY["service"] = ONLY["batch"]
# Run by `make test`, with plain children: every fault and every type; the others by `make test-slow`.
FAST = {
    "no GPU on the GPU agent": "service",
    "smoke test fails": "batch",
    "credential is missing": "library",
    "unit test fails": "library",
    "smoke test hangs": "service",
    "stash is forgotten": "batch",
    "registry is down": "service",
    "promotion is refused": "batch",
    "smoke test lies": "library",
    "smoke test skips": "batch",
    "smoke test is silent": "library",
    "report of another commit": "library",
    "report of another push": "batch",
    "lint does nothing": "batch",
    "test does nothing": "service",
    "smoke does nothing": "library",
    "build does nothing": "service",
    "push does nothing": "batch",
    "probe does nothing": "service",
    "package does nothing": "library",
}
FAULTY = [
    pytest.param(
        *(framework, project_type, fault),
        marks=[] if (framework, project_type) == ("plain", FAST[fault]) else pytest.mark.slow,
    )
    for framework in FRAMEWORKS
    for project_type in TYPES
    for fault in FAULTS
    if not any(fault in names for names in ONLY.values()) or fault in ONLY[project_type]
]


@pytest.mark.parametrize(("framework", "project_type", "fault"), FAULTY)
def test_a_fault_is_named_and_nothing_is_published(
    builds: Callable[..., Builds], framework: str, project_type: str, fault: str
) -> None:
    """The build of a tag fails in the right stage and says why; index, registry and cluster hold what they held."""
    it, case = builds(project_type, framework), FAULTS[fault]
    options = case.arrange(it) or {}
    before = () if fault == "registry is down" else (it.released(), it.published())
    try:
        trace = it.run(**case.kind, build_number=2, **options)
    finally:
        if fault == "registry is down":
            it.registry.start()
            it.index.start()
    assert trace.result == case.result, trace.log
    stage = trace.stage(case.stage.get(project_type, case.stage[""]))
    assert stage.result == case.result, trace.log
    assert case.words.get(project_type, case.words[""]) in said(trace, stage.name) + (stage.error or "") + trace.log
    assert (it.released(), it.published()) == (before or ({}, set()))
    assert it.deployed() == ""
    later = [name for name in ("Promote", "Publish", "Approve", "Deploy") if name != stage.name]
    assert not set(later) & set(trace.ran), trace.ran


@pytest.mark.parametrize("project_type", TYPES)
def test_a_fork_gets_no_push_no_gpu_and_no_credential(builds: Callable[..., Builds], project_type: str) -> None:
    """Its pull request is linted and tested, and says what it does not get; so does a fork that edits a script."""
    it = builds(project_type)
    trace = it.run(change="12", env=farm.environment(it.index, CHANGE_FORK="stranger"))
    assert trace.result == "SUCCESS", trace.log
    assert ran(trace).keys() == FIRST.keys() | {"From a fork", "Newest build of a branch"} | (
        {"Package"} if project_type == "library" else set()
    )
    assert "A pull request of stranger: linted and tested; no push, no GPU and no credential" in trace.log
    assert not [event for event in trace.events if event.step == "credentials" or event.label == "gpu"]
    assert it.staged() == {}
    it.nothing_is_out()


def test_each_credential_can_do_its_own_part_only(builds: Callable[..., Builds]) -> None:
    """The credential of staging releases nothing: the registry refuses it."""
    it = builds("batch")
    it.credentials["registry-release"] = farm.STAGING_LOGIN
    trace = it.run(branch="main")
    assert trace.stage("Promote").result == "FAILURE", trace.log
    assert len(it.staged()) == 1
    it.nothing_is_out()


def test_main_does_not_move_backwards(builds: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch) -> None:
    """The late build of an older commit is not released over a newer one."""
    it = builds("batch")
    old = git(it.child, "rev-parse", "HEAD").strip()
    note = next(it.child.glob("src/*/model.py")).with_name("note.py")
    note.write_text('"""Newer."""\n')
    with monkeypatch.context() as later:
        later.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
        commit(it.child, "A newer commit")
    assert it.run(branch="main", approve=False).stage("Promote").result == "SUCCESS"
    before = it.released()
    git(it.child, "checkout", "--quiet", "-B", "late", old)
    trace = it.run(branch="main", build_number=2)
    assert trace.stage("Promote").result == "FAILURE", trace.log
    assert "is of a newer commit already" in said(trace, "Promote")
    assert (it.released(), it.deployed()) == (before, "")


def test_a_registry_that_denies_its_own_tag_moves_nothing(builds: Callable[..., Builds]) -> None:
    """A 404 by mistake for the tag of a version is no reason to set it anew; a push that answers 503 is repeated."""
    it = builds("batch")
    it.registry.fails("PUT", f"ml-staging/{it.child.name}/manifests/", 503)
    first = it.run(**KINDS["tag"])
    assert first.result == "SUCCESS", first.log
    assert "trying again" in first.log
    before = it.released()
    note = next(it.child.glob("src/*/model.py")).with_name("note.py")
    note.write_text('"""Another commit."""\n')
    commit(it.child, "Change it under the same version")
    it.registry.fails("GET", f"ml/{it.child.name}/manifests/v0.1.0", 404)
    trace = it.run(**KINDS["tag"], build_number=2)
    assert trace.stage("Promote").result == "FAILURE", trace.log
    assert "lists the tag v0.1.0 and says that it is not there" in said(trace, "Promote")
    assert it.released() == before


def test_branches_whose_names_are_alike_have_images_of_their_own(builds: Callable[..., Builds]) -> None:
    it = builds("batch")
    for branch in ("feature/a", "feature-a", "feature_a"):
        assert it.run(branch=branch).result == "SUCCESS"
    assert sorted(it.staged()) == ["ci-feature-a-1", "ci-feature_.a-1", "ci-feature__a-1"]


def test_a_refused_approval_deploys_nothing(builds: Callable[..., Builds]) -> None:
    """The digest is promoted, the person says no: the build is aborted and the cluster hears nothing."""
    it = builds("service")
    trace = it.run(branch="main", approve=False)
    assert trace.result == "ABORTED", trace.log
    assert set(it.released()) == {"main"}
    assert "Deploy" not in trace.ran
    assert it.deployed() == ""


def test_leftovers_of_an_update_stop_the_build_first(builds: Callable[..., Builds]) -> None:
    """A conflict marker ends the build before anything else runs."""
    it = builds("library")
    (it.child / "README.md").write_text("<<<<<<< before updating\n")
    commit(it.child, "An update with a conflict")
    trace = it.run(branch="main")
    assert trace.result == "FAILURE"
    assert ran(trace) == {"No leftovers of an update": "docker"}
    assert "./README.md" in said(trace, "No leftovers of an update")
