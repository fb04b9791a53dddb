"""A release reaches edited children in every documented way, and each is green afterwards: docs/updating.md.

The fleet pushes pull requests; an owner runs scripts/update, the parent's program, or plain `copier update`, as
Renovate does with the command in renovate.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.journeys.child import Child as Laptop
from tests.updates.copiers import run_program
from tests.updates.family import Family
from tests.updates.test_family import RELEASED, start
from tests.updates.tiny import Child

OWN = "\n\nMINE = 1\n"
BASE = "deploy/base/deployment.yaml"
TYPES = ("service", "batch", "library")
SINCE = [version for version in RELEASED if version >= "v0.2.0"]
SCRIPT, PROGRAM, COPIER = "scripts/update", "the parent's program", "plain copier update as by Renovate"
# Each type with its own scripts/update from the last release, the other ways once; before a release, all of them.
SLOW = {(version, SCRIPT, kind) for version in SINCE[-1:] for kind in TYPES}
SLOW |= {(version, PROGRAM, "batch") for version in SINCE[:1]}
SLOW |= {(version, COPIER, "service") for version in SINCE[-1:]}
pytestmark = pytest.mark.needs("the history of git")


def edited(family: Family, path: Path, version: str, kind: str) -> Child:
    """Return a child of a release with its owner's edits."""
    answers = AnswerSet(kind, "plain")
    child = start(family, path, version, answers)
    model = "search.py" if kind == "library" else "model.py"
    name = f"src/{answers.package_name}/{model}"
    child.edit({name: child.read(name) + OWN, "Dockerfile": child.read("Dockerfile") + "# ours\n"})
    child.edit({".editorconfig": None})
    if (version, kind) == (SINCE[-1], "service"):  # in releases before it, these lines have another form
        text = child.read(BASE).replace("replicas: 2", "replicas: 4").replace("memory: 16Gi", "memory: 24Gi")
        child.edit({BASE: text.replace("timeoutSeconds: 2", "timeoutSeconds: 4")})
    return child


def check_clone(repository: Path, place: Path, branch: str = "HEAD") -> Path:
    """Set up, lint and test a fresh clone of a branch, and return it; setup had nothing to add to the commit."""
    subprocess.run(["git", "clone", "--quiet", str(repository), str(place)], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", f"origin/{branch}"], cwd=place, check=True)
    assert "# ours\n" in (place / "Dockerfile").read_text()
    assert not (place / ".editorconfig").exists(), "its owner deleted it"
    laptop = Laptop(place)
    laptop.sh("scripts/setup")
    laptop.sh("scripts/lint")
    laptop.sh("scripts/test", expect=" passed")
    assert laptop.sh("git status --porcelain") == "", "setup changed a lock that the update should have renewed"
    return place


@pytest.fixture(scope="module")
def pushed(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the children at the last release and push the work tree to them; return the folder of bare repositories."""
    folder = tmp_path_factory.mktemp("fleet")
    for kind in TYPES:
        child = edited(family, folder / f"{kind}-work", SINCE[-1], kind)
        child.git("clone", "--quiet", "--bare", str(child.path), str(folder / "git" / f"{kind}.git"))
    (folder / "fleet.yml").write_text(yaml.safe_dump({"template": str(family.path), "folder": str(folder / "git")}))
    command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "fleet.py"), "--file", str(folder / "fleet.yml")]
    done = subprocess.run(
        [*command, "push", "--to", family.work_tree],
        env=family.copier.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "git"


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_a_fresh_clone_of_the_pull_request_is_green(family: Family, pushed: Path, tmp_path: Path, kind: str) -> None:
    check_clone(pushed / f"{kind}.git", tmp_path / "clone", f"template/{family.work_tree}")


@pytest.mark.parametrize(
    ("version", "way", "kind"),
    [
        pytest.param(*row, marks=pytest.mark.slow if row in SLOW else pytest.mark.release)
        for row in ((version, way, kind) for version in SINCE for way in (SCRIPT, PROGRAM, COPIER) for kind in TYPES)
    ],
)
def test_an_owner_updates_by_hand(family: Family, tmp_path: Path, version: str, way: str, kind: str) -> None:
    child = edited(family, tmp_path / "child", version, kind)
    laptop = Laptop(child.path)
    if way == SCRIPT:
        laptop.sh("scripts/setup")
        laptop.sh(f"scripts/update --to {family.work_tree}")
        laptop.sh("scripts/setup && git add -A")  # the updaters of 0.5 and older leave the locks to it
    elif way == PROGRAM:
        options = ["--to", family.work_tree, "--repository", str(child.path)]
        child.edit({"scripts/test": child.read("scripts/test") + "# ours\n"})
        done = run_program("safe_update", options, child.path, family.copier.environment())
        assert (done.returncode, "conflict   scripts/test" in done.stdout) == (3, True), done.stdout + done.stderr
        child.git("checkout", "--theirs", "scripts/test")
        child.git("add", "scripts/test")
    else:
        child.updated("--vcs-ref", family.work_tree)
        child.git("add", "--all")
        [rule] = [one for one in json.loads(child.read("renovate.json"))["packageRules"] if "postUpgradeTasks" in one]
        assert (rule["matchManagers"], rule["enabled"], rule["draftPR"]) == (["copier"], False, True)
        laptop.sh(*rule["postUpgradeTasks"]["commands"])
        child.git("add", *rule["postUpgradeTasks"]["fileFilters"])
    child.git("commit", "--quiet", "--message=Update")
    clone = check_clone(child.path, tmp_path / "clone")
    if kind != "library":
        assert (clone / "wheels/requirements.in").read_text().split()[-1] in (clone / "requirements.lock").read_text()
