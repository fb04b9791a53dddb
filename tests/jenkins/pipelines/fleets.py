"""A fleet in which the pipelines of all three CI systems run: children, this repository's fleet tool and an agent.

Real: the fleet tool, the children's repositories, the updates, the children's own scripts and what is pushed. The
`make` of the agents sets up no environment and takes the Python that runs the tests; a file beside it breaks it
(standins/make.sh).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import NUMBERS
from tests.jenkins.runner import Trace, run_pipeline
from tests.updates.copiers import copier_at
from tests.updates.remotes import branches, release_first, release_second, write_fleet
from tests.updates.tiny import TEN_LINES, Template, make_child

BRANCH = "template/v2.0.0"
PIPELINES = ("hooks/fleet.Jenkinsfile", ".github/workflows/fleet.yml", ".gitlab-ci.yml")
TOKEN = "canary-of-the-fleet"
EDITS: dict[str, dict[str, str | None]] = {"first": {"own.txt": "own\n"}, "other": {"a.txt": "mine\n" + TEN_LINES}}
CANARIES = {"first": True, "other": False}


class Fleet:
    """A canary and another child on a code host, this repository's fleet tool in a repository of its own, and an agent.

    rule: kind, api and token_env of the host in fleet.yml; its repositories are bare ones in `folder`.
    """

    def __init__(self, folder: Path, rule: dict[str, str]) -> None:
        self.folder = folder
        self.template = Template(folder / "template", copier_at(folder / "home"))
        release_first(self.template)
        self.bare = {name: self._child(name, edits) for name, edits in EDITS.items()}
        release_second(self.template)
        self.source = folder / "parent"
        for room in ("hooks", "tools", "runtime", "base-images/image_tools"):
            shutil.copytree(ROOT / room, self.source / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "base-images" / "catalog.yml", self.source / "base-images")
        (self.source / "Makefile").write_text(
            "SHELL := /bin/bash\ninclude hooks/updates.mk\nbuild/ready:\n\ttouch $@\n"
        )
        for pipeline in PIPELINES[1:]:
            (self.source / pipeline).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / pipeline, self.source / pipeline)
        rule = rule | {"address": f"file://{folder}/remotes/"}
        shutil.copy(write_fleet(folder, self.template.path, CANARIES, rule), self.source / "fleet.yml")
        git(self.source, "init", "--quiet", "--initial-branch=main")
        git(self.source, "add", "--all")
        git(self.source, "commit", "--quiet", "--message=The fleet")
        self.agent = folder / "agent"
        self.agent.mkdir()
        told = f"echo \"$1 ${{GITHUB_TOKEN:+with the token}}\" >>'{folder}/made.log'"
        make = f"#!/bin/sh\n{told}\nSTANDIN_ENGINE='{self.agent}' exec '{farm.STANDINS}/make.sh' \"$@\"\n"
        (self.agent / "make").write_text(make)
        (self.agent / "make").chmod(0o755)

    def _child(self, name: str, edits: dict[str, str | None]) -> Path:
        child = make_child(self.template, self.folder / f"{name}-work", "--vcs-ref", "v1.0.0", edits=edits)
        (child.path / "scripts").mkdir()
        for script in ("setup", "test"):
            (child.path / "scripts" / script).write_text('#!/bin/sh\n[ -z "$GITHUB_TOKEN$GITLAB_TOKEN" ]\n')
            (child.path / "scripts" / script).chmod(0o755)
        child.commit("The child's scripts")
        bare = self.folder / "remotes" / "acme" / f"{name}.git"
        child.git("clone", "--quiet", "--bare", str(child.path), str(bare))
        return bare

    def environment(self) -> dict[str, str]:
        """Return what every job finds: Copier and Git of the test, and what the agent's `make` takes."""
        tools = {"STANDIN_MAKE": shutil.which("make") or "make", "STANDIN_PYTHON": sys.executable}
        return self.template.copier.environment() | tools

    def run(self, **options: Any) -> Trace:
        """Run the pipeline; the credential is there unless `options` say otherwise."""
        return run_pipeline(
            self.source / "hooks" / "fleet.Jenkinsfile",
            self.source,
            workdir=self.folder / f"work-{next(NUMBERS)}",
            labels={"linux": self.agent},
            params=options.pop("params", {}),
            env=self.environment(),
            **({"credentials": {"fleet-github": TOKEN}} | options),
        )

    def pushed(self) -> set[str]:
        """Return the children that got a branch."""
        return {name for name, bare in self.bare.items() if BRANCH in branches(bare)}
