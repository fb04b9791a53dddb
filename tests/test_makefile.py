"""make, in a clone whose .venv is somebody else's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.shared import ROOT


def test_an_environment_behind_a_link_is_not_emptied(tmp_path: Path) -> None:
    clone, other = tmp_path / "clone", tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin/theirs").touch()
    (clone / "templates/shared/scripts/tools").mkdir(parents=True)
    for name in ("Makefile", "requirements-dev.lock", "templates/shared/scripts/tools/uv.lock"):
        shutil.copy(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(other)
    # A Python that makes an environment whose own python and uv do nothing.
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" != -m ] || {{ {sys.executable} -c "import shutil; shutil.rmtree(\'.venv/bin\', True)"; '
        "mkdir -p .venv/bin; ln -s /bin/true .venv/bin/python; ln -s /bin/true .venv/bin/uv; }\n"
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["make", ".venv/.ready", f"PYTHON3={python}"], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (other / "bin/theirs").exists()
    assert not (clone / ".venv").is_symlink()
