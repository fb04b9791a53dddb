"""A child's scripts in the hands of people: an environment that is not finished, a read-only checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.sampling import every, sampled
from tests.shared import program
from tests.templates.own import own_copy, run


@pytest.fixture
def child(render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a library in a folder with a space, an accent and a quote, whose .venv is that of these tests."""
    (tmp_path / "thé ' projects").mkdir()
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path / "thé ' projects")
    program(child / ".venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    return child


def locked(child: Path) -> None:
    """Let .venv be of the locks, as scripts/setup leaves it."""
    locks = sorted(child.glob("requirements*.lock"))
    (child / ".venv/locks").write_bytes(b"".join(lock.read_bytes() for lock in locks))


def test_an_environment_that_is_not_finished_is_named(child: Path) -> None:
    done = run(child, "scripts/run rain README.md")
    assert "scripts/setup did not end" in done.stderr
    locked(child)
    assert "did not end" not in run(child, "scripts/run rain README.md").stderr


@pytest.mark.parametrize("verb", sampled(["test", "lint", "smoke"], every(3)))
def test_a_checkout_that_cannot_be_written_to_is_one_line(child: Path, verb: str) -> None:
    """A file in the place of build/ refuses root too."""
    locked(child)
    (child / "build").write_text("")
    done = run(child, f"scripts/{verb}")
    said = f"{verb}: build/ cannot be written to, and results go there: use a checkout that is not read-only\n"
    assert (done.returncode, done.stderr) == (3, said)
