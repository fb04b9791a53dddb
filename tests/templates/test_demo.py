"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.answers import TYPES
from tests.conftest import ROOT

SIGN = {"service": '"label":', "batch": "rows with the columns", "library": "list"}


def demo(*options: str) -> str:
    command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "demo.py"), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.xdist_group("demo")
@pytest.mark.parametrize("project_type", TYPES)
def test_the_demo_shows_real_results(project_type):
    text = demo("--type", project_type)
    assert SIGN[project_type] in text, text
    assert "Go on with:\n\n  cd build/demo\n" in text, text


@pytest.mark.xdist_group("demo")
def test_the_demo_of_a_torch_service(torch_build):
    assert SIGN["service"] in demo("--framework", "torch", "--framework-build", torch_build)
