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
from tests.jenkins import jvm
from tests.jenkins.conftest import leave_out
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


@pytest.fixture(scope="session")
def gitlab_tools(shared: Path) -> Path:
    """Return the folder with gitlab-ci-local, installed once by the hashes of its lock."""
    if not shutil.which("rsync"):
        leave_out("gitlab-ci-local needs rsync: apt-get install rsync")
    programs = Path(sys.executable).parent

    def make(folder: Path) -> None:
        shutil.copytree(gitlab.NPM, folder)
        command = [str(programs / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        around = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
        if done.returncode:
            leave_out(f"npm cannot install gitlab-ci-local: {done.stderr.strip()[-300:]}")

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
        if missing := jvm.missing():
            leave_out(f"no Jenkinsfile can be run: {missing}")
        return jenkins.run
    return partial(gitlab.run, tools=request.getfixturevalue("gitlab_tools"))
