"""A fleet of bare repositories with every outcome."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from tests.updates.tiny import TEN_LINES, Child, Template, make_child

EDITS: dict[str, dict[str, str | None]] = {
    "clean": {"own.txt": "own\n", "a.txt": TEN_LINES + "owner's line\n"},
    "conflict": {"a.txt": "mine\n" + TEN_LINES},
    "risk": {"dropped.txt": TEN_LINES + "owner's line\n"},
    "red": {"test.sh": "exit 1\n"},
    "dirty": {".copier-answers.yml": "<<<<<<< HEAD\n"},
    "optout": {"b.txt": None},
}
EXPECTED = {
    "clean": "clean",
    "conflict": "conflict",
    "risk": "at risk",
    "red": "test failed",
    "dirty": "error",
    "optout": "clean",
}


SETTINGS = "_exclude: [copier.yml, CHANGELOG.md, .git]\n"
FIRST = {"a.txt": TEN_LINES, "b.txt": "b\n", "test.sh": "true\n", "dropped.txt": TEN_LINES}


def release_first(template: Template) -> None:
    """Release version 1.0.0 of a small template."""
    template.release("v1.0.0", FIRST, SETTINGS)


def release_second(template: Template) -> None:
    """Release version 2.0.0: a fix, a new file and a dropped one."""
    kept = {name: text for name, text in FIRST.items() if name != "dropped.txt"}
    changed = {"a.txt": "fixed\n" + TEN_LINES, "new.txt": "n\n", "CHANGELOG.md": "## 2.0.0\n\nA security fix.\n"}
    template.release("v2.0.0", kept | changed, SETTINGS)


def add_child(template: Template, folder: Path, name: str, edits: dict[str, str | None]) -> Path:
    """Make a child with `edits` and put it into the bare repository folder/remotes/acme/NAME.git."""
    (folder / "work").mkdir(exist_ok=True)
    child = make_child(template, folder / "work" / name, "--vcs-ref", "v1.0.0", edits=edits)
    bare = folder / "remotes" / "acme" / f"{name}.git"
    child.git("clone", "--quiet", "--bare", str(child.path), str(bare))
    return bare


def write_fleet(folder: Path, waves: dict[str, str], hosts: list[dict[str, str]] | None = None) -> Path:
    """Write fleet.yml for the children of `waves` (name to wave)."""
    url = f"file://{folder}/remotes/acme"
    children = [{"url": f"{url}/{name}.git", "wave": wave, "owner": "team"} for name, wave in waves.items()]
    (folder / "fleet.yml").write_text(yaml.safe_dump({"children": children, "hosts": hosts or []}))
    return folder / "fleet.yml"


def branches(bare: Path) -> dict[str, str]:
    """Return the branches of a remote and their commits."""
    listed = ["git", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"]
    lines = subprocess.run(listed, cwd=bare, check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(line.split() for line in lines)  # type: ignore[misc]


def merge(bare: Path, branch: str, child: Child) -> None:
    """Merge a branch of a remote into main, as its owner would."""
    child.git("pull", "--quiet", "--no-rebase", "--no-ff", "--no-edit", str(bare), branch)
    child.git("push", "--quiet", str(bare), "HEAD:main")
