"""A child on a farm of its own, what its pipeline did, and what got out."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from tests.jenkins.pipelines import farm
from tests.jenkins.runner import Trace, run_pipeline

FIRST = {"Lint": "docker", "Test": "docker"}
CHECKS = {
    "library": FIRST | {"Package": "docker", "GPU smoke test": "gpu"},
    "batch": FIRST | {"Build and push": "docker", "GPU smoke test": "gpu"},
    "service": FIRST | {"Build and push": "docker", "GPU smoke test": "gpu"},
}
KINDS: dict[str, dict[str, Any]] = {
    "main": {"branch": "main"},
    "branch": {"branch": "feature/faster"},
    "pull request": {"change": "12"},
    "tag": {"tag": "v0.1.0"},
}
RELEASING = ("Promote", "Publish", "Approve", "Deploy")
NUMBERS = itertools.count(1)


class Builds:
    """A child, its agents, and what its pipeline did."""

    def __init__(self, child: Path, agents: farm.Agents, servers: tuple[farm.Registry, farm.Index]) -> None:
        self.child, self.agents = child, agents
        self.registry, self.index = servers
        self.first_published: set[str] = set()
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
        """Run the child's Jenkinsfile; the options are those of run_pipeline."""
        options.setdefault("env", farm.environment(self.index))
        return run_pipeline(
            self.child / "Jenkinsfile",
            self.child,
            labels=dict(self.agents.labels),
            credentials=self.credentials,
            workdir=self.agents.folder / f"work-{next(NUMBERS)}",
            **options,
        )

    def released(self) -> dict[str, str]:
        """Return the tags of what is released."""
        return self.registry.tags(self.repository)

    def staged(self) -> dict[str, str]:
        """Return the tags of what was pushed."""
        return self.registry.tags(self.repository.replace("ml/", "ml-staging/"))

    def waiting(self, branch: str) -> dict[str, str]:
        """Return the tags of what a branch pushed: its name as far as a tag takes it, a hash of it, the build."""
        readable = re.sub("[^A-Za-z0-9_.-]", "-", branch)[:60]
        shape = re.compile(rf"ci-{re.escape(readable)}\.-?[0-9]+-[0-9]+")
        return {tag: digest for tag, digest in self.staged().items() if shape.fullmatch(tag)}

    def published(self) -> set[str]:
        """Return the files of this child in the package index."""
        return {name for name in self.index.files() if name.startswith(self.child.name.replace("-", "_"))}

    def deployed(self) -> str:
        """Return what the cluster was told, "" when nothing."""
        file = self.agents.labels["kubectl"] / "applied.json"
        return file.read_text() if file.exists() else ""

    def take_back(self) -> set[str]:
        """Take the child's packages out of the index, for the next test with this child; return their names."""
        names = self.published()
        for name in names:
            (self.index.folder / name).unlink()
        return names

    def nothing_is_out(self) -> None:
        """Assert that neither index nor registry nor cluster got a release."""
        assert (self.released(), self.published(), self.deployed()) == ({}, set(), "")


def ran(trace: Trace) -> dict[str, str | None]:
    """Return the stages with steps that ran, and the label of each."""
    groups = {name for stage in trace.all_stages for name in stage.path[:-1]}
    return {
        stage.name: stage.label for stage in trace.all_stages if stage.name in trace.ran and stage.name not in groups
    }


def said(trace: Trace, stage: str) -> str:
    """Return what the commands of a stage printed."""
    return "\n".join(command.output for command in trace.stage(stage).commands)
