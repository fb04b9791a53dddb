"""A child of its own for a test: scripts run as its owner runs them, with programs that stand in for others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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


def new_row(copy: Path, name: str, of: str, last: bool = True) -> None:
    """Add a row as docs/base-images.md says, with the versions of another one."""
    for parent, pattern in (("base-images", of), ("templates/locks", f"*-{of}")):
        for found in (copy / parent).glob(pattern):
            shutil.copytree(found, found.with_name(found.name.replace(of, name)))
    (copy / "base-images" / name / "compatibility.json").unlink()
    file = copy / "base-images" / "catalog.yml"
    text = file.read_text()
    row = re.search(rf"(?s)  - name: {of}\n.*?(?=\n(?:  - name: |\n))", text)[0]  # type: ignore[index]
    row = row.replace(of, name).replace("    framework:", "    pinned_minor: ours\n    framework:", 1)
    before = "\n\n# Driver branches" if last else "\n  - name: torch-cu13\n"
    file.write_text(text.replace(before, f"\n{row}{before}", 1))
    tools = {**os.environ, "PYTHONPATH": "base-images:runtime/src"}
    subprocess.run([sys.executable, "-m", "image_tools", "pipelines"], cwd=copy, env=tools, check=True)
