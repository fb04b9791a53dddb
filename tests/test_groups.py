"""`--dist loadgroup` keeps the tests of a group on one worker, so that what they share is made once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

TESTS = """
import os, pathlib, pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_x(number):
    pathlib.Path(f"{number}.worker").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_group_stays_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    options = ["-q", "-c", os.devnull, "-p", "tests.groups", "-n", "2", "--dist", "loadgroup", "--rootdir", tmp_path]
    own = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *options, "test_x.py"]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({path.read_text() for path in tmp_path.glob("*.worker")}) == 1
