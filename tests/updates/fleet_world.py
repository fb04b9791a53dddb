"""A small template, bare children made from it, and hooks/fleet.py as a process."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.updates.code_host import Server
from tests.updates.copiers import ROOT, copier_at
from tests.updates.tiny import TEN_LINES, Child, Template, make_child

BRANCH = "template/v2.0.0"
TOKEN = "secret-of-the-fleet"


@dataclass
class World:
    """A template with two releases, children in bare repositories, and the fleet tool."""

    folder: Path
    template: Template
    env: dict[str, str]
    rule: dict[str, str] = field(default_factory=dict)
    server: Server = field(init=False)
    output: str = ""

    def git(self, place: Path, *words: str) -> str:
        """Run git in a folder and return what it prints. Raises CalledProcessError."""
        done = subprocess.run(["git", *words], cwd=place, env=self.env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def bare(self, name: str) -> Path:
        """Return the bare repository of a child."""
        return self.folder / "remotes" / "acme" / f"{name}.git"

    def release(self, version: str) -> None:
        """Release the template: 2.0.0 and later bring a fix and drop a file."""
        old = version == "1.0.0"
        files = {"a.txt": TEN_LINES, "dropped.txt": TEN_LINES} if old else {"a.txt": "fixed\n" + TEN_LINES}
        files |= {".copier-ownership.yml": "seed: [yours.txt]\n", "yours.txt": "a seed\n", "b.txt": f"{version}\n"}
        self.template.release(f"v{version}", files)

    def child(self, name: str, edits: dict[str, str | None] | None = None) -> Path:
        """Make a child of the first release with edits, in a bare repository."""
        place = self.folder / "work" / name
        place.parent.mkdir(exist_ok=True)
        child = make_child(self.template, place, "--vcs-ref", "v1.0.0", edits=edits)
        child.git("clone", "--quiet", "--bare", str(place), str(self.bare(name)))
        self.git(self.bare(name), "config", "uploadpack.allowFilter", "true")  # as code hosts do
        return self.bare(name)

    def work(self, name: str) -> Child:
        """Return the work tree that a child was made in."""
        return Child(self.folder / "work" / name, self.template.copier)

    def fleet(self, **more: object) -> None:
        """Write fleet.yml."""
        found = {"template": str(self.template.path), "folder": str(self.folder / "remotes" / "acme")}
        (self.folder / "fleet.yml").write_text(yaml.safe_dump(found | more))

    def canaries(self, *names: str) -> None:
        """Write fleet.yml with some children as canaries."""
        self.fleet(children=[{"url": str(self.bare(name)), "canary": True} for name in names])

    def run(self, *words: str, code: int = 0) -> dict[str, dict[str, str]]:
        """Run the tool with --json and return a row for each child."""
        command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "fleet.py")]
        command += ["--file", str(self.folder / "fleet.yml"), "--jobs", "2", *words, "--json"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        self.output = done.stdout + done.stderr
        assert done.returncode == code, self.output
        return {row["name"]: row for row in json.loads(done.stdout)["children"]} if done.stdout else {}

    def read(self, name: str, path: str, ref: str = BRANCH) -> str:
        """Return a file of a branch of a child."""
        return self.git(self.bare(name), "show", f"{ref}:{path}")

    def branches(self, name: str) -> dict[str, str]:
        """Return the branches of a child and their commits."""
        rows = self.git(self.bare(name), "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
        return dict(row.split() for row in rows.splitlines())  # type: ignore[misc]

    def person_commits(self, name: str, branch: str) -> str:
        """Add a person's commit to a branch and return it."""
        work = self.folder / "person"
        self.git(self.folder, "clone", "--quiet", "--branch", branch, str(self.bare(name)), str(work))
        self.git(work, "commit", "--quiet", "--allow-empty", "-m", "by hand")
        self.git(work, "push", "--quiet", "origin", branch)
        return self.git(work, "rev-parse", "HEAD")

    def merge(self, name: str, branch: str = BRANCH) -> None:
        """Merge a branch as its owner would."""
        head = self.git(self.bare(name), "symbolic-ref", "HEAD")
        self.git(self.bare(name), "update-ref", head, branch)


def make_world(folder: Path) -> World:
    """Return a template with two releases and no child yet."""
    copier = copier_at(folder / "home")
    (folder / "remotes" / "acme").mkdir(parents=True)
    (folder / "tmp").mkdir()
    env = copier.environment() | {"TMPDIR": str(folder / "tmp"), "FLEET_TEST_TOKEN": TOKEN}
    world = World(folder, Template(folder / "template", copier), env)
    world.release("1.0.0")
    world.release("2.0.0")
    world.fleet()
    return world
