"""Fixtures of the journeys: a repository that is set up once for all workers, and a copy of it for each journey.

A journey is a module with `TYPE` (and `FRAMEWORK`, if not "plain") and `PAGE`, a page below docs/.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import ROOT
from tests.journeys.child import Child
from tests.shared import once

NAMES = {"service": "parcel-prices", "batch": "wine-grapes", "library": "kernel-distance"}  # as on the pages
COMMIT = "git init -q -b main && git add -A && git -c user.name=Me -c user.email=me@example.com commit -qm Start"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Pages send requests with curl; a test that needs a program is in `make test-slow`."""
    if hasattr(item.module, "PAGE"):
        item.add_marker(pytest.mark.needs("curl"))


def copied(source: str, target: str) -> object:
    """Copy a file; link those of packages, which uv replaces and never writes into."""
    linked = "/site-packages/" in source and not source.endswith((".pth", "direct_url.json", "RECORD"))
    return os.link(source, target) if linked else shutil.copy2(source, target)


def move_environment(source: Path, target: Path) -> None:
    """Write the path of the copy into the programs of its .venv, which is quicker than a new one."""
    venv = target / ".venv"
    for path in [venv / "folder", *venv.glob("bin/*"), *venv.glob("lib/*/site-packages/*.pth")]:
        if path.is_file() and not path.is_symlink() and str(source).encode() in (content := path.read_bytes()):
            path.write_bytes(content.replace(str(source).encode(), str(target).encode()))


def own_copy(ready: Path, folder: Path, page: Path | None = None, variant: str = "") -> Child:
    """Return a copy of a repository that is set up, in a folder of its own."""
    copy = shutil.copytree(ready, folder / ready.name, symlinks=True, copy_function=copied)
    move_environment(ready, copy)
    return Child(copy, page, variant)


@pytest.fixture(scope="session")
def set_up(
    render: Callable[[AnswerSet], Path], shared: Path, request: pytest.FixtureRequest
) -> Callable[[str, str], Path]:
    """Return a function that renders a repository of a type with a framework, commits it, and sets it up."""

    def of(kind: str, framework: str) -> Path:
        build = f" --framework {request.getfixturevalue('torch_build')}" if framework == "torch" else ""

        def make(folder: Path) -> None:
            shutil.copytree(
                render(AnswerSet(kind, framework, project_name=NAMES[kind], training=kind == "batch")), folder
            )
            Child(folder).sh(f"{COMMIT} && scripts/setup{build}")

        return once(shared / "journeys" / framework / NAMES[kind], make)

    return of


@pytest.fixture(scope="module")
def child(
    request: pytest.FixtureRequest, set_up: Callable[[str, str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Child]:
    """Return a repository of the module's TYPE for this journey alone, with its PAGE to follow."""
    ready = set_up(request.module.TYPE, getattr(request.module, "FRAMEWORK", "plain"))
    page = ROOT / "docs" / request.module.PAGE
    one = own_copy(ready, tmp_path_factory.mktemp("own"), page, getattr(request, "param", ""))
    yield one
    one.stop()


@pytest.fixture
def service(request: pytest.FixtureRequest, set_up: Callable[[str, str], Path], tmp_path: Path) -> Iterator[Child]:
    """Return a service with the framework of the module, which serves what its journey trained."""
    one = own_copy(set_up("service", getattr(request.module, "FRAMEWORK", "plain")), tmp_path)
    yield one
    one.stop()
