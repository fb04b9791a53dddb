"""Children with the files of all systems on farms, and what runs their pipelines on each system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.answers import AnswerSet
from tests.ci import farm, github, gitlab, jenkins
from tests.ci.children import Builds, adapt, commit
from tests.ci.runs import NUMBERS, SYSTEMS, Run
from tests.conftest import git
from tests.shared import once

NEEDS = {"gitlab": ["rsync"], "jenkins": ["groovy"]}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the programs that a test runs: those of its system, and skopeo for the registry."""
    called = getattr(item, "callspec", None)
    item.add_marker(pytest.mark.needs(*NEEDS.get(called.params.get("system", "") if called else "", ())))
    if "registry" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("skopeo"))


@pytest.fixture(scope="session")
def registry() -> Iterator[farm.Registry]:
    """The container registry."""
    with farm.Registry() as made:
        yield made
        made.shutdown()


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> farm.Index:
    """The package index."""
    return farm.Index(tmp_path_factory.mktemp("index") / "index")


@pytest.fixture
def builds(
    render: Callable[[AnswerSet], Path], registry: farm.Registry, index: farm.Index, tmp_path: Path
) -> Callable[..., Builds]:
    """Return a function that gives a fresh, committed child of a type on agents of its own."""

    def make(project_type: str, framework: str = "plain", **answers: Any) -> Builds:
        child = tmp_path / f"{project_type}-{os.getpid()}-{next(NUMBERS)}"
        wanted = AnswerSet(project_type, framework, ci=SYSTEMS, **answers)
        shutil.copytree(render(wanted), child, ignore=shutil.ignore_patterns("__pycache__"))
        adapt(child, registry.host)
        project = child / "pyproject.toml"  # promises the Python that every machine of these tests has
        here = f'  "Programming Language :: Python :: 3.{sys.version_info.minor}",\n'
        project.write_text(re.sub(r'(  "Programming Language :: Python :: .*",\n)+', here, project.read_text()))
        git(child, "init", "--quiet", "--initial-branch=main")
        commit(child, "Start from the template")
        agents = farm.Agents(tmp_path / f"{child.name}-agents")
        agents.add("docker")
        agents.add("gpu", gpu=True)
        agents.add("kubectl", cluster=True)
        return Builds(child, agents, (registry, index))

    return make


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


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> str:
    """Return each system in turn."""
    return str(request.param)


@pytest.fixture
def run(system: str, request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Return what runs a pipeline on the system (runs.py)."""
    if system == "gitlab":
        return partial(gitlab.run, tools=request.getfixturevalue("gitlab_tools"))
    return github.run if system == "github" else jenkins.run
