"""This repository with a tag for each version, and a next release that changes something of everything."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from releases import next_version, order, released

from tests.answers import TYPES
from tests.conftest import copy_work_tree
from tests.updates.copiers import ROOT, Copier
from tests.updates.tiny import Repository

FIXED = ".dockerignore"  # a managed file that the next release changes at its top
COLLIDING = ".editorconfig"  # a managed file that the next release and the owner both end with a line of theirs
DELETED = "renovate.json"  # a managed file that the next release changes and the owner deleted
ADDED = "scripts/added"  # a managed file that comes with the next release
FIX = "# the template's fix\n"


@dataclass
class Family(Repository):
    """The template with versions as tags; `released` and `work_tree` are such tags."""

    released: list[str]
    work_tree: str

    @property
    def next(self) -> str:
        """Return the tag of the release made up by `release_next`."""
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
    """Clone this repository, tag every release of its history and commit the work tree as the version after."""
    environment = copier.environment()
    subprocess.run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(target)], check=True, env=environment)
    family = Family(target, copier, [], f"v{next_version(ROOT)}")
    for version, commit in released(ROOT).items():
        if f"v{version}" != family.work_tree:
            family.git("tag", f"v{version}", commit)
            family.released.append(f"v{version}")
    replace_by_work_tree(target)
    family.release(family.work_tree)
    return family


def release_next(family: Family) -> None:
    """Release a version with a fix, a new image, a new file, a new default and changed seeds, for every type."""
    for project_type in TYPES:
        folder = f"templates/{project_type}"
        family.change(f"{folder}/{FIXED}.jinja", lambda text: FIX + text)
        family.change(f"{folder}/{COLLIDING}.jinja", lambda text: text + "\n" + FIX)
        family.change(f"{folder}/{DELETED}.jinja", lambda text: text + "\n")
        family.change(f"{folder}/README.md.jinja", lambda text: "A changed seed.\n" + text)
        family.change(f"{folder}/src/{{{{package_name}}}}/model.py.jinja", lambda text: FIX + text)
        (family.path / folder / ADDED).write_text("#!/usr/bin/env bash\n" + FIX, encoding="utf-8")
    family.change("base-images/catalog.yml", lambda text: re.sub(r"(?m)^release: .*$", 'release: "2099.01"', text))
    family.change("company.yml", lambda text: text.replace("registry.example.com/ml\n", "new.example.com/ml\n"))
    for lock in (*family.path.glob("base-images/*/requirements.lock"), *family.path.glob("templates/locks/*/*.lock")):
        name = str(lock.relative_to(family.path))
        family.change(name, lambda text: re.sub(r"(?m)^([a-z0-9][a-z0-9._-]*)==[^ ;]+", r"\1==99.9", text, count=1))
    family.release(family.next)
