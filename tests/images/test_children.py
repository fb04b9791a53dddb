"""A child builds on every image, and its own checks pass inside; one of them is of the last release, updated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.updates.copiers import run_program
from tests.updates.family import Family
from tests.updates.test_family import RELEASED, start

from .conftest import CATALOG, DEFAULT_REGISTRY, ROWS, WANTED, Built

pytestmark = pytest.mark.images

# A run of all rows builds one child on each, so that every type, every framework and both CUDAs are met;
# tests/service/test_container.py builds a service of each framework besides. A run of one row builds every type.
SAMPLE = {
    "torch-cu13": "service",
    "torch-cu12": "batch",
    "tensorflow-cu12": "batch",
    "plain-cu13": "library",
    "plain-cu12": "service",
}
OLD = ("plain-cu12", "service")  # the child of the last release, updated; all others are new
PAIRS = [(name, kind) for name in ROWS for kind in TYPES if WANTED or SAMPLE.get(name, kind) == kind]


def answers_for(image: Built, project_type: str) -> AnswerSet:
    """Return answers that lead to the image: its framework, and the driver of the newest or of the oldest line."""
    same = [row["driver_min"] for row in CATALOG["images"] if row["framework"] == image.row["framework"]]
    newest = image.row["driver_min"] == max(same) and len(same) > 1
    name = f"check-{project_type}-{image.name}"[:30].rstrip("-")
    driver = "580" if newest else "525"
    return AnswerSet(project_type, image.row["framework"], driver, project_name=name)


def run(child: Path, *command: str) -> str:
    """Run a script of the child; return all it printed. Raises AssertionError with the output when it fails."""
    # Without .venv the child's scripts work in the child's image. IMAGE would name it; here it chooses a row.
    environment = {key: value for key, value in os.environ.items() if key not in ("IMAGE", "BASE_IMAGE")}
    done = subprocess.run(
        command, cwd=child, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, (
        f"{child.name}: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    )
    return done.stdout


def assert_labels_of_its_own(image: Built, answers: AnswerSet) -> None:
    """The child's image says what it is and on which base; nothing is left of what the base image says about itself."""
    child = image.client.images.get(f"{DEFAULT_REGISTRY}/{answers.project_name}:dev").labels
    of = {
        name: child.get(f"org.opencontainers.image.{name}") for name in ("title", "description", "base.name", "version")
    }
    assert of["title"] == answers.project_name, of
    assert of["base.name"].startswith(f"{DEFAULT_REGISTRY}/{image.name}:"), of
    both = [name for name in of if of[name] == image.image.labels.get(f"org.opencontainers.image.{name}")]
    assert both == [], f"{answers.id}: as in the base image"


def assert_builds_without_a_network(child: Path) -> None:
    """What a build downloaded is in its cache by hash: the step that installs asks no index a second time."""
    [name, *_] = re.findall(r"source=(requirements[\w-]*\.lock)", (child / "Dockerfile").read_text())
    lock = child / name
    lock.write_text(lock.read_text() + "# another text, so that the step runs again\n")
    run(child, "docker", "build", "--network=none", "--target=packages", ".")


def updated(family: Family, path: Path, answers: AnswerSet) -> None:
    """Make a child of the last release and update it, as the platform team's program does."""
    child = start(family, path, RELEASED[-1], answers)
    options = ["--to", family.work_tree, "--repository", str(path)]
    done = run_program("safe_update", options, path, family.copier.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    child.commit("Update")


@pytest.mark.parametrize(("image", "project_type"), PAIRS, indirect=["image"], scope="session")
def test_a_child_builds_and_passes_its_own_checks(
    image: Built, render: Callable[[AnswerSet], Path], family: Family, project_type: str, tmp_path: Path
) -> None:
    """The child's Dockerfile names this image, builds, and lint, tests, smoke test and probe pass in its container."""
    answers = answers_for(image, project_type)
    child = tmp_path / answers.project_name
    if (image.name, project_type) == OLD:
        updated(family, child, answers)
    else:
        shutil.copytree(render(answers), child, symlinks=True)
        subprocess.run(["git", "init", "--quiet", str(child)], check=True)
    assert f"ARG BASE_IMAGE={DEFAULT_REGISTRY}/{image.name}:" in (child / "Dockerfile").read_text(), answers.id
    try:
        run(child, "scripts/build")
        assert_labels_of_its_own(image, answers)
        run(child, "scripts/lint")
        assert " passed" in run(child, "scripts/test")
        assert " passed" in run(child, "scripts/smoke")
        if project_type == "service":
            assert "started, answered and stopped" in run(child, "scripts/probe")
        assert not (child / ".venv").exists(), "the checks ran outside the image"
        assert_builds_without_a_network(child)
    finally:
        made = [tag for local in image.client.images.list() for tag in local.tags if answers.project_name in tag]
        subprocess.run(["docker", "image", "rm", "--force", *made], check=False, capture_output=True)
