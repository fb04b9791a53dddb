"""The files of a release and of the work tree, and what differs between two rendered children."""

from __future__ import annotations

import difflib
import hashlib
import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_repo_runtime.update.answers import ANSWERS
from gpu_repo_runtime.update.git_calls import call, git
from gpu_repo_runtime.update.outcome import files_under


def export(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of one commit or tree into `folder`."""
    done = call(repository, "archive", commit)
    done.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="tar")


def work_tree(repository: Path) -> str:
    """Return the git tree of the files as they are, committed or not; the index stays as it is."""
    with TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        for step in (["read-tree", "HEAD"], ["add", "--all"], ["write-tree"]):
            told = git(repository, *step, more=index)
    return told.strip()


def tree_of(repository: Path, commit: str) -> str:
    """Return the git tree of a commit."""
    return git(repository, "rev-parse", f"{commit}^{{tree}}").strip()


def text_of(folder: Path, path: str) -> list[str]:
    """Return the lines of one rendered file; the template's own place and version are left out."""
    data = (folder / path).read_bytes()
    if b"\0" in data:
        return [f"binary, sha256:{hashlib.sha256(data).hexdigest()}\n"]
    lines = data.decode("utf-8", errors="replace").splitlines(keepends=True)
    return [line for line in lines if not line.startswith(("_src_path:", "_commit:"))] if path == ANSWERS else lines


def difference(old: Path, new: Path) -> str:
    """Return the rendered difference as a patch."""
    told: list[str] = []
    for path in sorted(files_under(old) | files_under(new)):
        before, after = (text_of(folder, path) if (folder / path).exists() else [] for folder in (old, new))
        told += difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else line + "\n" for line in told)
