"""A platform engineer brings a release to three edited children; a fresh clone of each pull request is green."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.journeys.child import Child as Laptop
from tests.updates.family import Family
from tests.updates.test_update import RELEASED, family, start  # noqa: F401 - a fixture

OWN = "\n\nMINE = 1\n"
TYPES = ("service", "batch", "library")


@pytest.fixture(scope="module")
def pushed(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """Make the children at the last release and push the work tree to them; return the folder of bare repositories."""
    folder = tmp_path_factory.mktemp("fleet")
    for kind in TYPES:
        answers = AnswerSet(kind, "plain")
        child = start(family, folder / f"{kind}-work", RELEASED[-1], answers)
        model = "search.py" if kind == "library" else "model.py"
        name = f"src/{answers.package_name}/{model}"
        child.edit({name: child.read(name) + OWN, "Dockerfile": child.read("Dockerfile") + "# ours\n"})
        child.edit({"renovate.json": None})
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
def test_a_fresh_clone_of_the_pull_request_is_green(family: Family, pushed: Path, tmp_path: Path, kind: str) -> None:  # noqa: F811
    clone = tmp_path / "clone"
    command = ["git", "clone", "--quiet", "--branch", f"template/{family.work_tree}", str(pushed / f"{kind}.git")]
    subprocess.run([*command, str(clone)], check=True)
    assert "# ours\n" in (clone / "Dockerfile").read_text()
    assert not (clone / "renovate.json").exists(), "its owner deleted it"
    laptop = Laptop(clone)
    laptop.sh("scripts/setup")
    laptop.sh("scripts/lint")
    laptop.sh("scripts/test", expect=" passed")
    assert laptop.sh("git status --porcelain") == "", "setup changed a lock that the update should have renewed"
