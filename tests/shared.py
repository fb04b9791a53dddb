"""Where things are, and what is made once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "runtime" / "src"


def without_shims(path: str) -> str:
    """Return a PATH on which this Python is itself: a version manager's stand-in starts a dozen shells before it."""
    folders = [folder for folder in path.split(os.pathsep) if Path(folder).name != "shims"]
    return os.pathsep.join([str(Path(sys.base_prefix) / "bin"), *folders])


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


def program(path: Path, text: str) -> None:
    """Write an executable file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Let the first who asks `make` the folder, the others wait; what failed is made again by the next."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.wait").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder
