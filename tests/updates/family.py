"""This repository with a tag for each version, and a next release that changes something of everything."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from releases import next_version, order, released

from tests.answers import TYPES
from tests.conftest import copy_work_tree
from tests.shared import once
from tests.updates.copiers import ROOT, Copier, copier_at
from tests.updates.tiny import Repository

COLLIDING = ".editorconfig"  # a managed file that the next release and the owner both end with a line of theirs
FIX = "# the template's fix\n"


@dataclass
class Family(Repository):
    """The template with its releases as tags, then the work tree and a made-up next release."""

    work_tree: str = field(default_factory=lambda: f"v{next_version(ROOT)}")

    @property
    def next(self) -> str:
        """Return the tag of the made-up release."""
        major, minor, _ = order(self.work_tree)
        return f"v{major}.{minor + 1}.0"

    def change(self, name: str, change: Callable[[str], str]) -> None:
        """Rewrite one file of the template; a change that changes nothing is an error of the test."""
        before = self.read(name)
        after = change(before)
        assert after != before, f"the made-up release changes nothing in {name}"
        (self.path / name).write_text(after, encoding="utf-8")

    def release(self, tag: str) -> None:
        """Commit the work tree as the version `tag`."""
        (self.path / "VERSION").write_text(tag.removeprefix("v") + "\n", encoding="utf-8")
        self.commit(f"Release {tag}")
        self.git("tag", tag)
        self.git("repack", "-adq")  # Copier clones the template five times in an update and deletes the clones


def replace_by_work_tree(target: Path) -> None:
    """Replace the files of the clone `target` by those of this work tree, committed or not."""
    for entry in target.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    copy_work_tree(target)


def clone_family(target: Path, copier: Copier) -> Family:
    """Clone this repository, tag its releases, release the work tree, and a next version with a fix for each type."""
    environment = copier.environment()
    subprocess.run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(target)], check=True, env=environment)
    family = Family(target, copier)
    for version, commit in released(ROOT).items():
        if f"v{version}" != family.work_tree:
            family.git("tag", f"v{version}", commit)
    replace_by_work_tree(target)
    family.release(family.work_tree)
    for project_type in TYPES:
        folder = f"templates/{project_type}"
        family.change(f"{folder}/.dockerignore.jinja", lambda text: FIX + text)
        family.change(f"{folder}/{COLLIDING}.jinja", lambda text: text + "\n" + FIX)
        (family.path / folder / "scripts/added").write_text("#!/usr/bin/env bash\n" + FIX, encoding="utf-8")
    family.change("base-images/catalog.yml", lambda text: re.sub(r"(?m)^release: .*$", 'release: "2099.01"', text))
    family.release(family.next)
    return family


def shared_family(shared: Path) -> Family:
    """Return the family, which is cloned once in a session."""
    copier = copier_at(shared / "family-home")
    return Family(once(shared / "family", lambda target: clone_family(target, copier)), copier)
