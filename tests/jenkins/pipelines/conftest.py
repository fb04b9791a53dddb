"""The servers, the children and the agents that the tests of pipelines share."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.answers import AnswerSet
from tests.conftest import git
from tests.jenkins.pipelines import farm
from tests.jenkins.pipelines.children import CHECKS, KINDS, NUMBERS, Builds
from tests.jenkins.runner import Trace


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the programs of the registry."""
    farm.needs_registry(item)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[farm.Registry, farm.Index]]:
    """A registry and a package index."""
    folder = tmp_path_factory.mktemp("servers")
    registry, index = farm.Registry(folder / "registry"), farm.Index(folder / "index")
    yield registry, index
    registry.stop()
    index.stop()


@pytest.fixture(scope="session")
def registry(servers: tuple[farm.Registry, farm.Index]) -> farm.Registry:
    """The container registry."""
    return servers[0]


@pytest.fixture(scope="session")
def index(servers: tuple[farm.Registry, farm.Index]) -> farm.Index:
    """The package index."""
    return servers[1]


@pytest.fixture(scope="session")
def make_child(
    render: Callable[[AnswerSet], Path], registry: farm.Registry, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that gives a fresh, committed child whose images go to the test's registry.

    `folder` is where it goes; without one it stays as long as the session. `quick` puts one small unit test in place of
    the child's own: tests are the owner's files, and their time is not what a test of the pipeline is about.
    """

    def make(answers: AnswerSet, *, name: str, quick: bool = True, folder: Path | None = None) -> Path:
        child = (folder or tmp_path_factory.mktemp("children")) / name
        shutil.copytree(render(answers), child, ignore=shutil.ignore_patterns("__pycache__"))
        for file in child.rglob("*"):  # every child its own repository in the registry and its own package
            if file.is_file() and file.suffix not in (".whl", ".npz"):
                text = file.read_text().replace("registry.example.com", registry.host)
                file.write_text(re.sub(r'(/ml/|^name = ")topic-finder\b', rf"\g<1>{name}", text, flags=re.M))
        farm.look_beside_docker(child)
        if quick:
            for test in (child / "tests").glob("test_*.py"):
                test.unlink()
            package = answers.package_name
            text = f"from {package}.model import Model\n\n\ndef test_it_has_examples():\n    assert Model.examples\n"
            (child / "tests" / "test_quick.py").write_text(text)
        project = child / "pyproject.toml"  # promises the Python that every machine of these tests has
        here = f'  "Programming Language :: Python :: 3.{sys.version_info.minor}",\n'
        project.write_text(re.sub(r'(  "Programming Language :: Python :: .*",\n)+', here, project.read_text()))
        git(child, "init", "--quiet", "--initial-branch=main")
        commit(child, "Start from the template")
        return child

    return make


@pytest.fixture(scope="session")
def python_of(make_child: Callable[..., Path], request: pytest.FixtureRequest) -> Callable[[AnswerSet], Path]:
    """Return a function that gives the Python with the packages of a child, set up once by the child's own script.

    Plain children find theirs in this repository's environment.
    """
    made: dict[AnswerSet, Path] = {}

    def of(answers: AnswerSet) -> Path:
        if answers.framework == "plain":
            return Path(sys.executable)
        if answers not in made:
            command = ["scripts/setup"]
            if answers.framework == "torch":
                command += ["--framework", request.getfixturevalue("torch_build")]
            child = make_child(answers, name=f"setup-{answers.id}")
            compiled = os.environ | {"UV_COMPILE_BYTECODE": "1"}  # as in the images; else each process spends seconds
            done = subprocess.run(
                command, cwd=child, env=compiled, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            assert done.returncode == 0, (
                f"{answers.id}: {' '.join(command)} ended with {done.returncode}: {done.stdout}"
            )
            made[answers] = child / ".venv" / "bin" / "python"
        return made[answers]

    return of


@pytest.fixture(scope="session")
def builds_in(
    make_child: Callable[..., Path],
    python_of: Callable[[AnswerSet], Path],
    servers: tuple[farm.Registry, farm.Index],
) -> Callable[..., Builds]:
    """Return a function that gives a child of a type with a farm of its own, with a GPU where a GPU should be.

    place: the folder that it lies in. of: a child that is there already, of which a copy is taken; its images and
    packages have the same names.
    """

    def make(
        place: Path,
        project_type: str,
        framework: str = "plain",
        *,
        shellcheck: bool = False,
        of: Path | None = None,
        ci: tuple[str, ...] = ("jenkins",),
        **options: Any,
    ) -> Builds:
        number = next(NUMBERS)
        answers, folder = AnswerSet(project_type, framework, ci=ci), place / f"farm-{number}"
        folder.mkdir()
        if of:
            child = folder / of.name
            shutil.copytree(of, child)
        else:
            child = make_child(answers, name=f"{project_type}-{framework}-{number}", folder=folder, **options)
        agents = farm.Agents(folder / "agents", python_of(answers), shellcheck)
        agents.add("docker")
        agents.add("gpu", gpu=True)
        agents.add("kubectl", cluster=True)
        return Builds(child, agents, servers)

    return make


@pytest.fixture
def builds(builds_in: Callable[..., Builds], tmp_path: Path) -> Callable[..., Builds]:
    """Return builds_in for the folder of the test, which goes with it: a farm holds up to 400 MB."""
    return partial(builds_in, tmp_path)


@pytest.fixture(scope="session")
def first_check(
    builds_in: Callable[..., Builds], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Builds, Trace]]:
    """Return a function that gives the farm of a type and the build of a tag that checked it, which ran once.

    All of its stages but the last ran, which releases; its stashes are what a release starts from.
    A library's ran to its end: what it published is told, and gone from the index.
    """

    @cache
    def of(project_type: str) -> tuple[Builds, Trace]:
        it = builds_in(tmp_path_factory.mktemp("farm"), project_type)
        trace = it.run(**KINDS["tag"], only=None if project_type == "library" else CHECKS[project_type])
        it.first_published = it.take_back()
        assert trace.result == "SUCCESS", trace.log
        return it, trace

    return of


@pytest.fixture
def checked(
    builds: Callable[..., Builds], first_check: Callable[[str], tuple[Builds, Trace]]
) -> Callable[[str], tuple[Builds, Trace]]:
    """Return a function that gives a checked child of a type with a farm of its own, and the build that checked it."""

    def of(project_type: str) -> tuple[Builds, Trace]:
        first, trace = first_check(project_type)
        return builds(project_type, of=first.child), trace

    return of


def commit(child: Path, message: str) -> None:
    """Commit everything in a child."""
    git(child, "add", "--all")
    git(child, "commit", "--quiet", f"--message={message}")
