"""A copy of this repository on a farm of agents with a registry, and what a build of it came to."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.runner import Trace, run_pipeline

CATALOG = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text())
ROWS = [row["name"] for row in CATALOG["images"] if row["state"] != "retired"]
FEW = ["torch-cu13", "plain-cu12"]  # two rows show what one does to another


class Parent:
    """A copy of this repository with a registry and agents of its own."""

    def __init__(self, source: Path, agents: farm.Agents, registry: farm.Registry, path: str) -> None:
        self.source, self.agents, self.registry, self.path = source, agents, registry, path
        self.credentials: dict[str, Any] = {
            "registry-staging": farm.STAGING_LOGIN,
            "registry-release": farm.RELEASE_LOGIN,
        }
        self.number = 0

    def run(self, rows: list[str], **options: Any) -> Trace:
        """Run the Jenkinsfile with some rows of its matrix; the options are those of run_pipeline."""
        file = self.source / "Jenkinsfile"
        text = re.sub(r"(name 'ROW'\n *values ).*", rf"\1{', '.join(map(repr, rows))}", file.read_text())
        file.write_text(text)
        if "after" not in options and git(
            self.source, "status", "--porcelain"
        ):  # what that build left is about its commit
            commit(self.source, "A build")
        self.number += 1
        return run_pipeline(
            file,
            self.source,
            labels=dict(self.agents.labels),
            credentials=self.credentials,
            env={
                "REGISTRY": f"{self.registry.host}/{self.path}",
                "REGISTRY_PAUSES": "0 0",
                "STANDIN_MAKE": shutil.which("make") or "make",
                "STANDIN_PYTHON": sys.executable,
                **options.pop("env", {}),
            },
            workdir=self.agents.folder / f"work-{self.number}",
            build_number=self.number,
            **options,
        )

    def released(self, row: str) -> set[str]:
        """Return the digests that a row's release tags point at: not what lies beside a release or proves the first."""
        tags = self.registry.tags(f"{self.path}/{row}")
        return {digest for tag, digest in tags.items() if not tag.startswith(("sha256-", "first-"))}

    def staged(self, row: str) -> set[str]:
        """Return the digests of a row's staging tags."""
        return set(self.registry.tags(f"{self.path}-staging/{row}").values())

    def label(self, name: str) -> Path:
        """Return the folder of an agent."""
        return self.agents.labels[name]


def on_a_farm(source: Path, registry: farm.Registry, folder: Path, path: str) -> Parent:
    """Return a copy of this repository on a farm with a CPU and a GPU agent."""
    shutil.copytree(source, folder / "source")
    agents = farm.Agents(folder / "agents")
    for label in ("docker", "gpu"):
        home = agents.add(label, gpu=label == "gpu")
        (home / "make").write_text(f"#!/bin/sh\nSTANDIN_ENGINE='{home}' exec '{farm.STANDINS}/make.sh' \"$@\"\n")
        (home / "make").chmod(0o755)
    return Parent(folder / "source", agents, registry, path)


def results(trace: Trace, row: str) -> dict[str, str]:
    """Return how the stages of a row's cell ended, of those that ran."""
    return {s.name: s.result for s in trace.stages(ROW=row) if s.name in STAGES and s.ran and s.started_ms is not None}


STAGES = ("Build and push", "GPU smoke test", "Promote")
LABELS = {"Build and push": "docker", "GPU smoke test": "gpu", "Promote": "docker"}
PASSED = dict.fromkeys(LABELS, "SUCCESS")
