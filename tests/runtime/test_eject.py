"""An owner who ejects the runtime has its source, and uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.services import RUNTIME

COPY = "src/gpu_repo_runtime"


def ejected(project: Path) -> subprocess.CompletedProcess[str]:
    """Eject in a repository, as scripts/eject does."""
    command = [sys.executable, "-m", "gpu_repo_runtime.eject"]
    environment = os.environ | {"PYTHONPATH": str(RUNTIME)}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_copy_is_used_in_place_of_the_wheel_and_never_replaced(tmp_path: Path) -> None:
    assert ejected(tmp_path).returncode == 0
    (tmp_path / COPY / "cores.py").write_text("mine = True\n", encoding="utf-8")
    program = "import gpu_repo_runtime.cores as c; print(c.mine, c.__file__)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(RUNTIME)])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(tmp_path / COPY / "cores.py")]
    again = ejected(tmp_path)
    assert (again.returncode, f"git rm -r {COPY}" in again.stderr) == (1, True)
    assert (tmp_path / COPY / "cores.py").read_text() == "mine = True\n"
