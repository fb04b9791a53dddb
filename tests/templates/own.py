"""A child of its own for a test: scripts run as its owner runs them, with programs that stand in for others."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import git


def own_copy(source: Path, folder: Path, commit: bool = False) -> Path:
    """Copy a rendered child into a new folder, beside a folder `bin` for stand-ins; commit it as its owner would."""
    child = Path(shutil.copytree(source, folder / "child"))
    (folder / "bin").mkdir()
    if commit:
        git(child, "init", "--quiet", "--initial-branch=main")
        git(child, "add", "--all")
        git(child, "commit", "--quiet", "--message=Start from the template")
    return child


def stand_in(child: Path, name: str, text: str, program: str = "bash") -> None:
    """Let a program be this script."""
    file = child.parent / "bin" / name
    file.write_text(f"#!/usr/bin/env {program}\n{text}\n", encoding="utf-8")
    file.chmod(0o755)


def run(child: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in the child with these variables alone; the stand-ins are first on PATH."""
    path = f"{child.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(child.parent), "LANG": "C.UTF-8", **variables}
    return subprocess.run(
        ["bash", "-c", script], cwd=child, env=environment, capture_output=True, encoding="utf-8", check=False
    )
