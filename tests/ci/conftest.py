"""Children with the files of all systems, on the farm of the Jenkins pipelines' tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.ci import github, gitlab, jenkins
from tests.ci.runs import Run
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.conftest import (  # noqa: F401
    builds,
    builds_in,
    index,
    make_child,
    python_of,
    registry,
    servers,
)
from tests.shared import once

Runs = Callable[..., Run]
NEEDS = {"gitlab": ["rsync"], "jenkins": ["groovy"]}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the programs of the registry and of the system that a test runs."""
    farm.needs_registry(item)
    called = getattr(item, "callspec", None)
    for system in called.params.values() if called else ():
        item.add_marker(pytest.mark.needs(*NEEDS.get(system, ()) if isinstance(system, str) else ()))


@pytest.fixture(scope="session")
def gitlab_tools(shared: Path) -> Path:
    """Return the folder with gitlab-ci-local, installed once by the hashes of its lock."""
    programs = Path(sys.executable).parent

    def make(folder: Path) -> None:
        shutil.copytree(gitlab.NPM, folder)
        command = [str(programs / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        around = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"npm cannot install gitlab-ci-local: {done.stderr.strip()[-300:]}")

    return once(shared / "gitlab-ci-local", make)


@pytest.fixture(params=["github", "gitlab"])
def system(request: pytest.FixtureRequest) -> str:
    """Return each system in turn; a test that is also about Jenkins names its own."""
    return str(request.param)


@pytest.fixture
def run(system: str, request: pytest.FixtureRequest) -> Runs:
    """Return what runs a build of a kind on the system."""
    if system == "github":
        return github.run
    if system == "jenkins":
        return jenkins.run
    return partial(gitlab.run, tools=request.getfixturevalue("gitlab_tools"))
