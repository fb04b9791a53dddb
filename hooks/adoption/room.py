"""A folder of its own to lock in: the template's files and what is asked for, and no file of the old repository.

Its `.env`, `uv.toml` or `.venv` could say which program or whose package runs; none of them is here. No package is
built to be known: one that has only a source archive is read (source_archives.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import tomlkit

from adoption.source_archives import Archive, environment, settings

UV = Path(sys.executable).parent / "uv"
SETTINGS = "uv.toml"  # beside pyproject.toml, it also keeps uv from looking in the folders above
LIMIT = 300  # seconds that one run of scripts/lock may take


def furnish(room: Path, render: Path, pyproject: Path) -> None:
    """Make the folder `room` from a render, with what the owner's pyproject.toml asks for and none of its settings."""
    shutil.copytree(render, room)
    settle(room, [])
    try:
        theirs = tomllib.loads(pyproject.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return
    project = {key: value for key, value in theirs.get("project", {}).items() if key not in ("readme", "license")}
    (room / "pyproject.toml").write_text(tomlkit.dumps({"project": project}), encoding="utf-8")


def settle(room: Path, archives: list[Archive]) -> None:
    """Let uv take wheels alone, but for these source archives, whose words are known already."""
    (room / SETTINGS).write_text(settings(archives), encoding="utf-8")
    constraints = room / "constraints.txt"
    if archives:
        known = constraints.read_text(encoding="utf-8") if constraints.exists() else ""
        lines = [line for one in archives if (line := f"{one.name}=={one.version}") not in known.splitlines()]
        constraints.write_text("\n".join([known.rstrip("\n"), *lines, ""]), encoding="utf-8")


def run_lock(room: Path) -> str:
    """Run the child's own scripts/lock with this environment's uv; return "" or what it said against it."""
    uv = room / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True, exist_ok=True)
    if not uv.exists():
        uv.symlink_to(UV)
    try:
        done = subprocess.run(
            ["bash", "scripts/lock"],
            cwd=room,
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"scripts/lock did not end within {LIMIT} s"
    return "" if done.returncode == 0 else (done.stderr or done.stdout or "scripts/lock failed without a message")


def take_out(room: Path, clone: Path, prefix: str) -> None:
    """Copy what was locked, and what it was locked from, into the clone."""
    for path in sorted([*room.glob("requirements*.lock"), *room.glob(f"{prefix}*.in")]):
        shutil.copyfile(path, clone / path.name)
