"""The pipeline of this repository, executed: each row of the catalogue on its own, promoted by digest or not at all.

farm.py says what is real here and what stands in; base images are small stand-ins with a list of Debian packages,
pushed, listed (by syft) and tagged for real by the image tools.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import commit
from tests.jenkins.runner import Trace, check, run_pipeline

CATALOG = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text())
ROWS = [row["name"] for row in CATALOG["images"] if row["state"] != "retired"]
FEW = ["torch-cu13", "plain-cu12"]  # two rows show what one does to another


def test_jenkins_would_read_both() -> None:
    """The static check finds nothing in the pipelines of this repository."""
    assert check(ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile") == []


class Parent:
    """A copy of this repository with a registry and agents of its own."""

    def __init__(self, source: Path, agents: farm.Agents, registry: farm.Registry, path: str) -> None:
        self.source, self.agents, self.registry, self.path = source, agents, registry, path
        self.credentials: dict[str, Any] = {"registry": farm.REGISTRY_LOGIN}
        self.number = 0

    def run(self, rows: list[str], **options: Any) -> Trace:
        """Run the Jenkinsfile with some rows of its matrix."""
        file = self.source / "Jenkinsfile"
        text = re.sub(
            r"(name 'UNIT'\n *values ).*", rf"\1{', '.join(map(repr, ['template', *rows]))}", file.read_text()
        )
        file.write_text(text)
        commit(self.source, "A build") if git(self.source, "status", "--porcelain") else None
        self.number += 1
        return run_pipeline(
            file,
            self.source,
            labels=dict(self.agents.labels),
            credentials=self.credentials,
            env={
                "REGISTRY": f"{self.registry.host}/{self.path}",
                "STANDIN_MAKE": shutil.which("make") or "make",
                "STANDIN_PYTHON": sys.executable,
            },
            workdir=self.agents.folder / f"work-{self.number}",
            build_number=self.number,
            **options,
        )

    def released(self, row: str) -> set[str]:
        """Return the digests that the release tags of a row point at."""
        tags = self.registry.tags(f"{self.path}/{row}")
        return {digest for tag, digest in tags.items() if not tag.startswith("staging-")}

    def staged(self, row: str) -> set[str]:
        """Return the digests of a row's staging tags."""
        tags = self.registry.tags(f"{self.path}/{row}")
        return {digest for tag, digest in tags.items() if tag.startswith("staging-")}

    def label(self, name: str) -> Path:
        """Return the folder of an agent."""
        return self.agents.labels[name]


@pytest.fixture
def parent(template: Path, registry: farm.Registry, tmp_path: Path) -> Parent:
    """A copy of this repository on a farm with a CPU and a GPU agent."""
    source = tmp_path / "source"
    shutil.copytree(template, source)
    agents = farm.Agents(tmp_path / "agents")
    for label in ("docker", "gpu"):
        home = agents.add(label, gpu=label == "gpu")
        (home / "make").write_text(f"#!/bin/sh\nSTANDIN_ENGINE='{home}' exec '{farm.STANDINS}/make.sh' \"$@\"\n")
        (home / "make").chmod(0o755)
    return Parent(source, agents, registry, tmp_path.name.replace("_", "-").lower())


def results(trace: Trace, row: str) -> dict[str, str]:
    """Return how the stages of a row's cell ended, of those that ran."""
    return {s.name: s.result for s in trace.stages(UNIT=row) if s.name in STAGES and s.ran and s.started_ms is not None}


STAGES = ("Template tests", "Build and push", "GPU smoke test", "Promote")
LABELS = {"Build and push": "docker", "GPU smoke test": "gpu", "Promote": "docker"}
PASSED = dict.fromkeys(LABELS, "SUCCESS")


@pytest.mark.parametrize("rows", [FEW, pytest.param(ROWS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_main_promotes_the_digest_that_was_smoked(parent: Parent, rows: list[str]) -> None:
    """Every row goes from staging over the GPU agent to its release tags, and its record is kept."""
    trace = parent.run(rows, branch="main")
    assert trace.result == "SUCCESS", trace.log
    assert results(trace, "template") == {"Template tests": "SUCCESS"}
    for row in rows:
        assert results(trace, row) == PASSED, row
        assert {name: trace.stage(name, UNIT=row).label for name in LABELS} == LABELS, row
        assert trace.stage("GPU smoke test", UNIT=row).locks, row
        [digest] = parent.released(row)
        assert parent.staged(row) == {digest}, row
        record = json.loads((trace.archive / "build" / "released" / row / "released.json").read_text())[row]
        require = "gpu" if row.startswith("plain") else "framework"
        assert (record["digest"], record["smoke"]["require"], record["smoke"]["on_a_gpu"]) == (digest, require, True)
    assert farm.REGISTRY_LOGIN[1] not in trace.log


@pytest.mark.parametrize(
    "kind", [{"branch": "feature"}, {"change": "7"}, {"tag": "v0.1.0"}], ids=["branch", "pull request", "tag"]
)
def test_only_main_promotes(parent: Parent, kind: dict[str, str]) -> None:
    """The same checks, by digest on the GPU agent; no release tag."""
    trace = parent.run(FEW[1:], **kind)
    assert trace.result == "SUCCESS", trace.log
    assert results(trace, FEW[1]) == {name: "SUCCESS" for name in LABELS if name != "Promote"}
    assert (len(parent.staged(FEW[1])), parent.released(FEW[1])) == (1, set())


def test_a_row_that_fails_holds_back_only_itself(parent: Parent) -> None:
    """One row does not build and the template's tests fail: the build is red, and the other row is promoted."""
    (parent.label("docker") / "tests-fail").touch()
    (parent.label("docker") / f"broken-{FEW[0]}").touch()
    trace = parent.run(FEW, branch="main")
    assert trace.result == "FAILURE"
    assert results(trace, "template") == {"Template tests": "FAILURE"}
    assert results(trace, FEW[0]) == {"Build and push": "FAILURE"}
    assert results(trace, FEW[1]) == PASSED, trace.log
    assert (parent.released(FEW[0]), len(parent.released(FEW[1]))) == (set(), 1)


def unlink_gpu(parent: Parent) -> None:
    (parent.label("gpu") / "nvidiactl").unlink()


def failing_smoke(parent: Parent) -> None:
    (parent.label("gpu") / "smoke-fails").touch()


def hanging_smoke(parent: Parent) -> dict[str, Any]:
    (parent.label("gpu") / "smoke-hangs").touch()
    return {"timeouts": {"GPU smoke test": 8}}


def no_credential(parent: Parent) -> None:
    parent.credentials.clear()


def registry_down(parent: Parent) -> None:
    parent.registry.stop()


def lost_stash(parent: Parent) -> None:
    """The report of the smoke test is stashed under another name than it is asked for."""
    file = parent.source / "Jenkinsfile"
    old = 'stash name: "smoke-${env.UNIT}"'
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, "stash name: 'lost'"))


def report_of_another_digest(parent: Parent) -> None:
    """The report that reaches the promotion is not about the digest that is promoted."""
    file = parent.source / "Jenkinsfile"
    old = """sh 'make smoke-digest IMAGE="$UNIT"'"""
    assert file.read_text().count(old) == 1
    other = "sh 'sed -i s/sha256:..../sha256:beef/ build/images/smoke/*.json'"
    file.write_text(file.read_text().replace(old, f"{old}\n{other}"))


FAULTS: dict[str, tuple[Callable[[Parent], Any], str, str, str]] = {
    "no GPU on the GPU agent": (unlink_gpu, "GPU smoke test", "FAILURE", "no tag was set"),
    "smoke test fails": (failing_smoke, "GPU smoke test", "FAILURE", "GPU and CPU differ"),
    "smoke test hangs": (hanging_smoke, "GPU smoke test", "ABORTED", "imeout"),
    "credential is missing": (no_credential, "Build and push", "FAILURE", "'registry'"),
    "registry is down": (registry_down, "Build and push", "FAILURE", "does not answer"),
    "stash is forgotten": (lost_stash, "Promote", "FAILURE", "smoke-torch-cu13"),
    "promotion is refused": (report_of_another_digest, "Promote", "FAILURE", "no tag was set"),
}
FAST = ("no GPU on the GPU agent", "stash is forgotten", "registry is down")


@pytest.mark.parametrize("fault", [f if f in FAST else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS])
def test_a_fault_promotes_nothing(parent: Parent, fault: str) -> None:
    """The right stage fails and says why; the registry holds no release."""
    arrange, stage, result, words = FAULTS[fault]
    options = arrange(parent) or {}
    try:
        trace = parent.run(FEW[:1], branch="main", **options)
    finally:
        if fault == "registry is down":
            parent.registry.start()
    assert trace.result == result, trace.log
    assert results(trace, FEW[0])[stage] == result, trace.log
    assert words in trace.log
    assert parent.released(FEW[0]) == set()


def test_the_nightly_build_promotes_only_other_packages(parent: Parent) -> None:
    """Same packages: not promoted, though the image differs. A package is newer: promoted."""
    row = FEW[1]
    first = parent.run([row], branch="main")
    assert first.result == "SUCCESS", first.log
    shutil.copytree(first.archive / "build" / "released" / row, parent.source / "adopted" / row)
    released = parent.source / "base-images"
    shutil.copy(parent.source / "adopted" / row / "released.json", released / "released.json")
    shutil.copytree(parent.source / "adopted" / row / "sbom", released / "sbom")
    shutil.rmtree(parent.source / "adopted")
    before = parent.released(row)
    for version, promoted in (("3.5.1-1", False), ("3.5.1-2", True)):
        docker = parent.label("docker")
        shutil.rmtree(docker / "images")
        (docker / "images").mkdir()
        (docker / "openssl").write_text(version)
        (parent.source / "base-images" / row / "requirements.in").open("a").write("# another comment\n")
        trace = parent.run([row], branch="main", timer=True)
        assert trace.result == "SUCCESS", trace.log
        assert (parent.released(row) > before) == promoted, trace.log
        assert ("openssl: 3.5.1-1 -> 3.5.1-2" in trace.log) == promoted
