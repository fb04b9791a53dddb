"""A child's scripts in the hands of people: an environment that is not finished, a folder with a difficult name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.answers import AnswerSet
from tests.shared import program
from tests.templates.own import own_copy, run


def test_an_environment_that_is_not_finished_is_named(render: Callable[[AnswerSet], Path], tmp_path: Path) -> None:
    """In a folder with a space, an accent and a quote; .venv is that of these tests."""
    (tmp_path / "thé ' projects").mkdir()
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path / "thé ' projects")
    program(child / ".venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    assert "scripts/setup did not end" in run(child, "scripts/run rain README.md").stderr
    locks = sorted(child.glob("requirements*.lock"))
    (child / ".venv/locks").write_bytes(b"".join(lock.read_bytes() for lock in locks))
    assert "did not end" not in run(child, "scripts/run rain README.md").stderr
