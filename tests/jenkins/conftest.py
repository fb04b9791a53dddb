"""Run small Jenkinsfiles."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any, Protocol

import pytest

from tests.conftest import git
from tests.jenkins.runner import Trace, run_pipeline


class Run(Protocol):
    """Runs a pipeline given as text."""

    def __call__(self, text: str, **arguments: Any) -> Trace:
        """Run it; the arguments are those of run_pipeline."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test here executes a Jenkinsfile."""
    item.add_marker(pytest.mark.needs("groovy"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a repository with one file, `tracked.txt`."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "tracked.txt").write_text("tracked\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=one")
    return folder


@pytest.fixture
def run(tmp_path: Path, source: Path) -> Run:
    """Return a function that runs a pipeline given as text on `source`."""

    def of(text: str, **arguments: Any) -> Trace:
        jenkinsfile = tmp_path / "Jenkinsfile"
        jenkinsfile.write_text(dedent(text).lstrip("\n"))
        return run_pipeline(jenkinsfile, source, **{"workdir": tmp_path / "work", **arguments})

    return of


def pipeline(stages: str, *, agent: str = "any", top: str = "") -> str:
    """Wrap stages, and sections of the pipeline if given, into a pipeline."""
    return f"pipeline {{\n agent {agent}\n{dedent(top)}\n stages {{\n{dedent(stages)}\n }}\n}}\n"


def stage(steps: str, *, name: str = "Only", sections: str = "") -> str:
    """Return one stage with these steps, and with sections such as post."""
    return f"stage('{name}') {{\n{dedent(sections)}\nsteps {{\n{dedent(steps)}\n}}\n}}\n"
