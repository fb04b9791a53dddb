"""The runtime that a repository carries in wheels/: its locks, and its copy where the owner has ejected it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

PACKAGE = "gpu_repo_runtime"
SHOWN = 8


def renew_locks(child: Path) -> str:
    """Resolve the locks again where they name another runtime than wheels/ holds now; return a line about it, or ""."""
    wheel, lock = carried(child), child / "requirements.lock"
    if not wheel or not lock.exists() or f"@ file:wheels/{wheel.name} " in lock.read_text(encoding="utf-8"):
        return ""
    named = f"file:wheels/{wheel.name}"
    if not (child / ".venv" / "bin" / "uv").exists():
        return f"locks      do not name {named} yet: scripts/setup resolves them"
    done = subprocess.run(["scripts/lock"], cwd=child, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return f"locks      resolved again for {named}"
    return f"{done.stderr.strip()}\nlocks      do not name {named} yet (the reason stands above): run scripts/lock"


def told_ejected(child: Path) -> str:
    """Return what the owner's copy of the runtime misses of the one in wheels/, or "" where nothing is to be told."""
    copy, wheel = child / "src" / PACKAGE, carried(child)
    if wheel is None or not copy.is_dir():
        return ""
    try:
        mark = json.loads((copy / "EJECTED").read_text(encoding="utf-8"))
        version, files = str(mark["version"]), dict(mark["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"runtime    src/{PACKAGE} is used in place of {wheel.name}; nothing says which version it was"
    with zipfile.ZipFile(wheel) as archive:
        now = {
            name.removeprefix(f"{PACKAGE}/"): hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith(f"{PACKAGE}/") and not name.endswith("/")
        }
    other = sorted(name for name in {*files, *now} if files.get(name) != now.get(name))
    if not other:
        return ""
    more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
    return (
        f"runtime    src/{PACKAGE} was ejected from {version} and stays as it is. It misses what {wheel.name} changes "
        f"in {', '.join(other[:SHOWN])}{more}; to see them: python -m zipfile -e wheels/{wheel.name} build/runtime"
    )


def carried(child: Path) -> Path | None:
    """Return the wheel that wheels/requirements.in names, or None where there is none."""
    asked = child / "wheels" / "requirements.in"
    if not asked.is_file():
        return None
    wheel = child / asked.read_text(encoding="utf-8").rpartition("file:")[2].strip()
    return wheel if wheel.is_file() else None
