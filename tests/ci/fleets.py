"""A fleet in which the pipelines of all three CI systems run: children, this repository's fleet tool and an agent.

Real: the fleet tool, the children's repositories, the updates and what is pushed. The
`make` of the agents sets up no environment and takes the Python that runs the tests (standins/make.sh). The children's
code host is a stand-in of its HTTP (tests/updates/code_host.py).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.ci import farm
from tests.ci.children import commit
from tests.ci.runs import Pipeline
from tests.conftest import ROOT, git
from tests.updates.code_host import Server
from tests.updates.fleet_world import BRANCH, make_world
from tests.updates.tiny import TEN_LINES

PIPELINE = Pipeline("hooks/fleet.Jenkinsfile", (".github/workflows/fleet.yml",))
TOKEN = "canary-of-the-fleet"
EDITS: dict[str, dict[str, str | None]] = {"first": {"own.txt": "own\n"}, "other": {"a.txt": "mine\n" + TEN_LINES}}


class Fleet:
    """A canary and another child on a code host, and this repository's fleet tool in a repository of its own."""

    def __init__(self, folder: Path, host: str, server: Server) -> None:
        self.host, self.server, self.world = host, server, make_world(folder)
        for name, edits in EDITS.items():
            self.world.child(name, edits)
        self.source = folder / "parent"
        for room in ("hooks", "tools", "runtime", "base-images/image_tools"):
            shutil.copytree(ROOT / room, self.source / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "base-images" / "catalog.yml", self.source / "base-images")
        (self.source / "Makefile").write_text(
            "SHELL := /bin/bash\ninclude hooks/updates.mk\nbuild/ready:\n\ttouch $@\n"
        )
        for pipeline in (*PIPELINE.github, ".gitlab-ci.yml"):
            (self.source / pipeline).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / pipeline, self.source / pipeline)
        rule = {"kind": host, "api": server.address, "token_env": f"{host.upper()}_TOKEN"}
        rule |= {"address": f"file://{folder}/remotes/"}
        children = [{"url": f"{rule['address']}acme/{name}.git", "canary": name == "first"} for name in EDITS]
        fleet = {"template": str(self.world.template.path), "children": children, "hosts": [rule]}
        (self.source / "fleet.yml").write_text(yaml.safe_dump(fleet))
        git(self.source, "init", "--quiet", "--initial-branch=main")
        commit(self.source, "The fleet")
        self.agents = farm.Agents(folder / "agents")
        own = {name: value for name, value in self.world.env.items() if name.startswith(("COPIER_", "GIT_"))}
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in own.items())
        for label in ("linux", "docker", "gpu"):
            self.agents.add(label, make=variables)

    def run(self, run: Callable[..., Any], kind: str = "schedule", *, token: str = TOKEN, **options: Any) -> Any:
        """Run the pipeline on a system, as its schedule would."""
        credentials = {f"fleet-{self.host}": token}
        variables = {"FLEET": "1"}
        return run(self.source, self.agents, credentials, kind, PIPELINE, variables=variables, **options)

    def pushed(self) -> set[str]:
        """Return the children that got a branch."""
        return {name for name in EDITS if BRANCH in self.world.branches(name)}

    def open_requests(self) -> set[str]:
        """Return the children that have an open request."""
        known = self.server.pulls.items()
        return {name.removeprefix("acme/") for name, pulls in known if any(one.state == "open" for one in pulls)}
