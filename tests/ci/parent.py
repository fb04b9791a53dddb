"""A copy of this repository on a farm of agents, what its pipeline did on one of the systems, and what got out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ci import farm
from tests.ci.runs import CREDENTIALS, Pipeline

ROW = "plain-cu12"
PIPELINE = Pipeline("Jenkinsfile", tuple(f".github/workflows/{name}.yml" for name in ("images", "image")))


class Parent:
    """A copy of this repository with agents and a place in the registry of its own."""

    def __init__(self, source: Path, registry: farm.Registry, folder: Path) -> None:
        self.source, self.registry, self.path = source, registry, folder.name.replace("_", "-").lower()
        self.agents = farm.Agents(folder / "agents")
        self.agents.add("docker", make="")
        self.agents.add("gpu", gpu=True, make="")
        self.credentials: dict[str, Any] = {
            name: login for name, login in CREDENTIALS.items() if name.startswith("registry")
        }

    def run(self, run: Callable[..., Any], kind: str, **options: Any) -> Any:
        """Run the pipeline on a system for a build of this kind, with one row unless the options say otherwise."""
        variables = {"REGISTRY": f"{self.registry.host}/{self.path}"}
        options = {"row": ROW, "variables": variables} | options
        return run(self.source, self.agents, self.credentials, kind, PIPELINE, **options)

    def released(self, row: str = ROW) -> set[str]:
        """Return the digests that a row's release tags point at: not what lies beside a release or proves the first."""
        tags = self.registry.tags(f"{self.path}/{row}")
        return {digest for tag, digest in tags.items() if not tag.startswith(("sha256-", "first-"))}

    def staged(self, row: str = ROW) -> set[str]:
        """Return the digests of a row's staging tags."""
        return set(self.registry.tags(f"{self.path}-staging/{row}").values())
