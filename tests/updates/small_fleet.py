"""A fleet of small children, and the tool run on it as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.updates.copiers import ROOT, copier_at, run_program
from tests.updates.remotes import add_child, branches, merge, release_first, release_second, write_fleet
from tests.updates.tiny import Child, Template

BRANCH = "template/v2.0.0"


class Fleet:
    """A fleet of small children on bare repositories, and the tool run on it as a program.

    The program is a fork that has imported everything already; `started` has the real one in its place, whose command
    line and environment others see.
    """

    def __init__(self, folder: Path, edits: dict[str, dict[str, str | None]], started: bool = False) -> None:
        self.folder, self.started = folder, started
        self.template = Template(folder / "template", copier_at(folder / "home"))
        release_first(self.template)
        self.bare = {name: add_child(self.template, folder, name, edit) for name, edit in edits.items()}
        release_second(self.template)
        self.waves = dict.fromkeys(edits, "canary")
        self.environment = self.template.copier.environment()
        write_fleet(folder, self.waves)

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the program itself."""
        return [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "fleet.py"), *self.places(), *arguments]

    def places(self) -> list[str]:
        """Return the options that name the fleet and where the tool remembers it."""
        return ["--fleet", str(self.folder / "fleet.yml"), "--state", str(self.folder / "state"), "--jobs", "2"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the tool; the exit code is the caller's to judge."""
        if self.started:
            command = self.command(*arguments)
            return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return run_program("fleet", [*self.places(), *arguments], ROOT, self.environment)

    def plan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Plan to the newest version."""
        return self.run("plan", "--template", str(self.template.path), *arguments)

    def record(self, name: str) -> dict[str, object]:
        """Return what the tool remembers of a child."""
        loaded: dict[str, object] = json.loads((self.folder / "state" / "children" / f"{name}.json").read_text())
        return loaded

    def branches(self, name: str) -> dict[str, str]:
        """Return the branches of a child's remote."""
        return branches(self.bare[name])

    def merge(self, name: str) -> None:
        """Merge the update of a child, as its owner would."""
        merge(self.bare[name], BRANCH, Child(self.folder / "work" / name, self.template.copier))
