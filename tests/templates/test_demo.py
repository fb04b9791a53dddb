"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.answers import TYPES
from tests.conftest import ROOT

SIGN = {"service": '"label":', "batch": "rows with the columns", "library": "list"}


def demo(folder: Path, *options: str) -> str:
    command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "demo.py"), *options]
    environment = {**os.environ, "DEMO_FOLDER": str(folder)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("project_type", TYPES)
def test_the_demo_shows_real_results(project_type, tmp_path):
    text = demo(tmp_path / "demo", "--type", project_type)
    assert SIGN[project_type] in text, text
    assert "Go on with:\n\n  cd " in text, text


def test_the_demo_of_a_torch_service(torch_build, tmp_path):
    assert SIGN["service"] in demo(tmp_path / "demo", "--framework", "torch", "--framework-build", torch_build)
