"""The batch job of a rendered child: what was written for earlier versions goes on working around its own model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.batch.conftest import RUNTIME, Output
from tests.sampling import sampled
from tests.shared import program
from tests.templates.own import own_copy, run, stand_in

EARLIER = """
import sys
from topic_finder.device import choose
from topic_finder.job.cli import main

assert choose("cpu") == "cpu"
sys.exit(main(["run", "--input", sys.argv[1], "--output", sys.argv[2], "--device", "cpu"]))
"""


@pytest.fixture(scope="module")
def environment(render: Callable[[AnswerSet], Path]) -> dict[str, str]:
    """Return the environment in which Python finds a rendered batch repository and the runtime."""
    source = render(AnswerSet("batch", "plain", layout=1)) / "src"
    return os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{RUNTIME}", "DEVICE": "cpu"}


@pytest.mark.slow
def test_tests_of_version_0_2_go_on_working(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("rain and wind\n")
    command = [sys.executable, "-W", "ignore", "-c", EARLIER, str(tmp_path / "a.txt"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def repository(render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a repository whose .venv is this Python, with the runtime's source."""
    child = own_copy(render(AnswerSet("batch", "plain")), tmp_path)
    text = f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{RUNTIME}" exec "{sys.executable}" "$@"\n'
    program(child / ".venv/bin/python", text)
    (child / "sub" / "folder").mkdir(parents=True)
    return child


def script(repository: Path, place: Path, words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a script of the repository from a place."""
    called = f'cd "{place}" && {os.path.relpath(repository, place)}/scripts/{words}'
    return run(repository, called, DEVICE="cpu", **environment)


@pytest.mark.slow
@pytest.mark.parametrize("where", sampled(["child", "child/sub/folder", "elsewhere"], ["child/sub/folder"]))
def test_relative_paths_are_of_the_folder_where_the_person_stands(repository: Path, tmp_path: Path, where: str) -> None:
    place = tmp_path / where
    place.mkdir(exist_ok=True)
    (place / "a.txt").write_text("rain and wind\n")
    done = script(repository, place, "run --input 'a.*' --output out --workers 2")
    assert done.returncode == 0, done.stderr
    assert len(Output(place / "out").rows()) == 1
    assert {path.name for path in place.iterdir()} >= {"a.txt", "out"}


@pytest.mark.slow
def test_the_other_scripts_do_not_depend_on_the_place(repository: Path) -> None:
    done = script(repository, repository / "sub", "probe")
    assert done.returncode == 0, done.stderr
    assert "the job read, predicted and wrote" in done.stdout + done.stderr


def test_what_no_container_would_see_is_refused(repository: Path, tmp_path: Path) -> None:
    done = script(repository, tmp_path, "run --input a.txt --output out", RUN_IN="docker")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"a container sees only this repository: call it from {repository}" in done.stderr


def test_the_names_of_settings_reach_a_container(repository: Path) -> None:
    """From there they go on to the nodes of a Ray cluster."""
    stand_in(repository, "docker", '[ "$1" != run ] || echo "$@"; [ "$1" != run ] || env')
    (repository / ".env").write_text("ROUNDS=3\nTOKEN=abc\n")
    done = script(repository, repository, "run --input a.txt", RUN_IN="docker")
    assert done.returncode == 0, done.stderr
    options, *environment = done.stdout.splitlines()
    assert {"JOB_SETTINGS", "ROUNDS", "TOKEN"} <= set(options.split()), options
    assert "JOB_SETTINGS= ROUNDS TOKEN" in environment
