"""A child of its own for a test: scripts run as its owner runs them, with programs that stand in for others."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import git
from tests.shared import program


def own_copy(source: Path, folder: Path, commit: bool = False) -> Path:
    """Copy a rendered child into a new folder; commit it as its owner would."""
    child = Path(shutil.copytree(source, folder / "child"))
    if commit:
        git(child, "init", "--quiet", "--initial-branch=main")
        git(child, "add", "--all")
        git(child, "commit", "--quiet", "--message=Start from the template")
    return child


def stand_in(child: Path, name: str, text: str, language: str = "bash") -> None:
    """Let a program be this script."""
    program(child.parent / "bin" / name, f"#!/usr/bin/env {language}\n{text}\n")


def run(child: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in the child with these variables alone; stand-ins in bin/ beside it are first on PATH."""
    path = f"{child.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(child.parent), "LANG": "C.UTF-8", **variables}
    return subprocess.run(
        ["bash", "-c", script], cwd=child, env=environment, capture_output=True, encoding="utf-8", check=False
    )
