"""A child on a farm, what its pipeline did on one of the systems, and what got out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ci import farm
from tests.ci.runs import CREDENTIALS, Pipeline, Run
from tests.conftest import git

PIPELINE = Pipeline("Jenkinsfile", (".github/workflows/ci.yml",))


def commit(folder: Path, message: str) -> None:
    """Commit everything in a repository."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", f"--message={message}")


class Builds:
    """A child, its agents, and the systems that run its pipeline."""

    def __init__(self, child: Path, agents: farm.Agents, servers: tuple[farm.Registry, farm.Index]) -> None:
        self.child, self.agents = child, agents
        self.registry, self.index = servers
        self.repository = f"ml/{child.name}"
        cluster = agents.folder / "kubeconfig"
        cluster.write_text("cluster: test\n")
        self.credentials: dict[str, Any] = CREDENTIALS | {"kubeconfig": cluster}

    def run(self, run: Callable[..., Run], kind: str, **options: Any) -> Run:
        """Run the child's pipeline on a system for a build of this kind."""
        variables = {"PACKAGE_INDEX_URL": f"{self.index.url}/"} | options.pop("variables", {})
        return run(self.child, self.agents, self.credentials, kind, PIPELINE, variables=variables, **options)

    def released(self) -> dict[str, str]:
        """Return the tags of what is released."""
        return self.registry.tags(self.repository)

    def staged(self) -> dict[str, str]:
        """Return the tags of what was pushed."""
        return self.registry.tags(self.repository.replace("ml/", "ml-staging/"))

    def published(self) -> set[str]:
        """Return the files of this child in the package index."""
        names = {path.name for path in self.index.folder.iterdir()}
        return {name for name in names if name.startswith(self.child.name.replace("-", "_"))}

    def deployed(self) -> str:
        """Return what the cluster was told, "" when nothing."""
        file = self.agents.labels["kubectl"] / "applied.json"
        return file.read_text() if file.exists() else ""

    def nothing_is_out(self) -> None:
        """Assert that neither index nor registry nor cluster got a release."""
        assert (self.released(), self.published(), self.deployed()) == ({}, set(), "")


def quick_checks(child: Path) -> None:
    """Let lint and test of a child say at once that all is good: for faults that are not about them."""
    head = "#!/usr/bin/env bash\nmkdir -p build/proof build/test-results\ngit rev-parse HEAD >build/proof/"
    report = '<testsuite><testcase name="quick"/></testsuite>'
    (child / "scripts" / "lint").write_text(f"{head}lint\n")
    (child / "scripts" / "test").write_text(
        f"{head}test\ntee build/proof/unit.xml >build/test-results/unit.xml <<<'{report}'\n"
    )


def adapt(child: Path, registry: str) -> None:
    """Let a rendered child be of its own name, push to the test's registry and have one small unit test.

    Tests are the owner's files, and their time is not what a test of the pipeline is about.
    """
    for file in child.rglob("*"):
        if file.is_file() and file.suffix not in (".whl", ".npz"):
            text = file.read_text().replace("registry.example.com", registry)
            file.write_text(re.sub(r'(/ml/|^name = ")topic-finder\b', rf"\g<1>{child.name}", text, flags=re.M))
    library = child / "scripts" / "lib.sh"  # the GPU is beside its agent's docker
    text = library.read_text()
    assert text.count("-e /dev/nvidiactl") == 1, f"{library}: how does it find a GPU now?"
    library.write_text(text.replace("-e /dev/nvidiactl", '-e "$(dirname "$(command -v docker)")/nvidiactl"'))
    for test in (child / "tests").glob("test_*.py"):
        test.unlink()
    [package] = [file.parent.name for file in child.glob("src/*/model.py")]
    text = f"from {package}.model import Model\n\n\ndef test_it_has_examples():\n    assert Model.examples\n"
    (child / "tests" / "test_quick.py").write_text(text)
