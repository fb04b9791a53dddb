"""A new child on every Python that it may have: its packages have wheels, and its own tests pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.templates.own import own_copy, run

UV = Path(sys.executable).with_name("uv")
PYTHONS = pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
TYPES = pytest.mark.parametrize("project_type", ["batch", "service"])
Render = Callable[[AnswerSet], Path]


@pytest.mark.release
@TYPES
@PYTHONS
def test_every_locked_package_has_a_wheel_for_it(
    render: Render, tmp_path: Path, python: str, project_type: str
) -> None:
    """Nothing is installed: uv takes the lock of a new child for that Python, and no package may need a compiler."""
    options = ("--dry-run", "--require-hashes", "--only-binary", ":all:", "--python-version", python)
    command = [UV, "pip", "install", *options, "--target", tmp_path / "target", "-r", "requirements.lock"]
    child = render(AnswerSet(project_type, "plain"))
    done = subprocess.run(command, cwd=child, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.release
@TYPES
@PYTHONS
def test_a_new_child_passes_its_own_tests(render: Render, tmp_path: Path, python: str, project_type: str) -> None:
    found = subprocess.run([UV, "python", "find", "--no-python-downloads", python], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"Python {python} is not installed here")
    child = own_copy(render(AnswerSet(project_type, "plain")), tmp_path)
    index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}
    done = run(child, "scripts/setup && scripts/test -q", PYTHON=found.stdout.strip(), **index)
    assert (done.returncode, " passed" in done.stdout) == (0, True), done.stdout + done.stderr
    version = subprocess.run([child / ".venv/bin/python", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith(f"Python {python}.")
