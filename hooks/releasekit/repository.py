"""The template's repository: its files at a commit and as they are, and git without anybody's settings."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

SETTINGS = {"safe.directory": "*", "core.hooksPath": os.devnull, "commit.gpgSign": "false", "gc.auto": "0"}


def neutral() -> dict[str, str]:
    """Return an environment in which git and Copier have no settings of the person who runs this."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GIT_", "COPIER_"))}
    pairs = {f"GIT_CONFIG_{what}_{n}": text for n, pair in enumerate(SETTINGS.items())
             for what, text in zip(("KEY", "VALUE"), pair, strict=True)}  # fmt: skip
    who = {f"GIT_{role}_{what}": text for role in ("AUTHOR", "COMMITTER")
           for what, text in (("NAME", "Release check"), ("EMAIL", "release-check@example.invalid"))}  # fmt: skip
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "COPIER_SETTINGS_PATH": os.devnull}
    return kept | pairs | who | nothing | {"GIT_CONFIG_COUNT": str(len(SETTINGS))}


def git(folder: Path, *arguments: str, **more: str) -> str:
    """Run git and return its output; `more` are environment variables. Raises CalledProcessError."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, env=neutral() | more, check=True, capture_output=True, text=True)
    return done.stdout


def export(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit or tree into `folder`."""
    command = ["git", "archive", commit]
    done = subprocess.run(command, cwd=repository, env=neutral(), check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="tar")


def work_tree(repository: Path) -> str:
    """Return the git tree of the files as they are, committed or not; the index stays as it is."""
    with TemporaryDirectory() as folder:
        index = str(Path(folder, "index"))
        git(repository, "read-tree", "HEAD", GIT_INDEX_FILE=index)
        git(repository, "add", "--all", GIT_INDEX_FILE=index)
        return git(repository, "write-tree", GIT_INDEX_FILE=index).strip()


def tree_of(repository: Path, commit: str) -> str:
    """Return the git tree of a commit."""
    return git(repository, "rev-parse", f"{commit}^{{tree}}").strip()
