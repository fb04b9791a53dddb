"""The children's pipelines, executed: what runs where, what is published, and what a fault holds back.

farm.py says what is real here and what stands in. Never run: a Jenkins server, a GPU, a cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answers import FRAMEWORKS, TYPES, AnswerSet
from tests.conftest import git
from tests.jenkins import farm
from tests.jenkins.conftest import commit
from tests.jenkins.runner import Trace, check, run_pipeline

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
SECRETS = (farm.REGISTRY_LOGIN[1], farm.INDEX_LOGIN[1])


class Builds:
    """A child, its agents, and what its pipeline did."""

    def __init__(self, child: Path, agents: farm.Agents, servers: tuple[farm.Registry, farm.Index]) -> None:
        self.child, self.agents = child, agents
        self.registry, self.index = servers
        self.repository = f"ml/{child.name}"
        cluster = agents.folder / "kubeconfig"
        cluster.write_text("cluster: test\n")
        self.credentials: dict[str, Any] = {
            "registry": farm.REGISTRY_LOGIN,
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
        """Return the tags in the registry that are no staging tags."""
        return {tag: d for tag, d in self.registry.tags(self.repository).items() if not tag.startswith("ci-")}

    def staged(self) -> dict[str, str]:
        """Return the staging tags in the registry."""
        return {tag: d for tag, d in self.registry.tags(self.repository).items() if tag.startswith("ci-")}

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
def builds(make_child: Callable[..., Path], servers: Any, tmp_path: Path) -> Callable[..., Builds]:
    """Return a function that gives a child of a type with a farm of its own, with a GPU where a GPU should be."""

    def of(project_type: str, framework: str = "plain", *, gpu: bool = True, **options: Any) -> Builds:
        name = f"{project_type}-{framework}-{next(NUMBERS)}"
        child = make_child(AnswerSet(project_type, framework), name=name, **options)
        agents = farm.Agents(tmp_path / "agents")
        agents.add("docker")
        agents.add("gpu", gpu=gpu)
        agents.add("kubectl", cluster=True)
        return Builds(child, agents, servers)

    return of


def ran(trace: Trace) -> dict[str, str | None]:
    """Return the stages with steps that ran, and the label of each."""
    groups = {name for stage in trace.all_stages for name in stage.path[:-1]}
    return {stage.name: stage.label for stage in trace.all_stages if stage.name in trace.ran and stage.name not in groups}


def said(trace: Trace, stage: str) -> str:
    """Return what the commands of a stage printed."""
    return "\n".join(command.output for command in trace.stage(stage).commands)


@pytest.mark.parametrize("project_type", TYPES)
def test_jenkins_would_read_it(render: Callable[[AnswerSet], Path], project_type: str) -> None:
    """The static check finds nothing, and the pipeline does not depend on the framework."""
    files = [render(AnswerSet(project_type, framework)) / "Jenkinsfile" for framework in FRAMEWORKS]
    assert check(*files) == []
    assert len({file.read_text() for file in files}) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("project_type", TYPES)
def test_what_runs_where_and_what_is_published(
    builds: Callable[..., Builds], project_type: str, kind: str
) -> None:
    """Every build checks everything; only main and a tag publish, the digest that was smoked and nothing else."""
    it = builds(project_type)
    trace = it.run(**KINDS[kind])
    assert trace.result == "SUCCESS", trace.log
    assert ran(trace) == CHECKS[project_type] | EXPECTED.get((project_type, kind), {})
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
