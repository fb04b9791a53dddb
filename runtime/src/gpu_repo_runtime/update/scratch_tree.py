"""A scratch work tree of a child, where an update is tried: one at a time, only of a clean child."""

from __future__ import annotations

import atexit
import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .checkout import as_committed, changed_here, check_whole, named
from .git_calls import UpdateError, call, cause, git, place_of, prefix_of
from .write_back import journal_folder

REASON = "an update of the template works here"
UNFINISHED = {
    "MERGE_HEAD": "a merge", "rebase-merge": "a rebase", "rebase-apply": "a rebase or git am",
    "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
}  # fmt: skip


def check_clean(child: Path) -> None:
    """Raise UpdateError unless `child` is in a git repository, without uncommitted changes of its own."""
    top = call(child, "rev-parse", "--show-toplevel")
    if top.returncode:
        told = top.stderr.decode(errors="replace")
        if "not a git repository" in told:  # below a mount point another line follows it
            raise UpdateError(f"{child} is not a git repository with a commit: git init, add and commit first")
        raise UpdateError(cause(told))
    if call(child, "rev-parse", "--verify", "HEAD").returncode:
        raise UpdateError(f"{child} is not a git repository with a commit: git add and commit first")
    for name, what in UNFINISHED.items():
        if (child / place_of(child, "--git-path", name)).exists():
            raise UpdateError(f"{what} is not finished here: finish it, or abort it, first")
    changed = changed_here(child)
    if changed:
        raise UpdateError(f"there are uncommitted changes: commit or stash them first ({named(changed)})")
    check_whole(child)


@contextmanager
def alone(child: Path) -> Iterator[None]:
    """Let one update at a time work on a repository. Raises UpdateError while another one does."""
    with journal_folder(child).with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UpdateError("another update works on this repository: wait for it") from error
        yield


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a folder that goes afterwards, or with the process where a stop comes while it goes."""
    with TemporaryDirectory(prefix="update-") as name:
        atexit.register(shutil.rmtree, name, ignore_errors=True)
        yield Path(name)


@contextmanager
def scratch(child: Path) -> Iterator[Path]:
    """Give a scratch work tree of the child's last commit and take it away again; take away what a kill left."""
    prefix = prefix_of(child)
    with alone(child):
        for block in git(child, "worktree", "list", "--porcelain").split("\n\n"):
            if f"locked {REASON}" in block:
                place = Path(block.split("\n")[0].removeprefix("worktree "))
                call(child, "worktree", "remove", "--force", "--force", str(place))
                if place.parent.name.startswith("update-"):
                    shutil.rmtree(place.parent, ignore_errors=True)
        call(child, "worktree", "prune")
        with scratch_folder() as folder:
            tree = folder / "tree"
            add = ("worktree", "add", "--quiet", "--detach", "--lock", "--reason", REASON)
            git(child, *add, str(tree), "HEAD", more=as_committed(child))
            try:
                yield tree / prefix
            finally:
                call(child, "worktree", "remove", "--force", "--force", str(tree))
