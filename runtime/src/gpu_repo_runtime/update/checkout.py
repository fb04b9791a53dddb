"""What git was told about files of a work tree: not to look at some, line endings, programs that pass them on.

An update compares what is committed, and it must be seen by the next commit; so each of the three is asked for here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .git_calls import UpdateError, call, git, prefix_of, settings

SHOWN = 5
SKIPPED = "S"  # of skip-worktree, as `git ls-files -v` says it; a small letter is assume-unchanged


def unseen(child: Path) -> dict[str, str]:
    """Return the files that git was told not to look at, and its letter for each."""
    rows = [row for row in git(child, "ls-files", "-v", "-z", "--", ".").split("\0") if row]
    return {row[2:]: row[0] for row in rows if row[0] == SKIPPED or row[0].islower()}


def check_whole(child: Path) -> None:
    """Raise UpdateError in a sparse checkout that leaves files out: they would count as deleted by their owner."""
    skipped = [path for path, letter in unseen(child).items() if letter == SKIPPED]
    left_out = [path for path in skipped if not os.path.lexists(child / path)]
    if left_out:
        raise UpdateError(
            f"this is a sparse checkout without {named(left_out)}, and fixes to them would be lost: "
            "git sparse-checkout disable first"
        )


def check_seen(child: Path, paths: Iterable[str]) -> None:
    """Raise UpdateError where the update changes a file that git was told not to look at.

    What its owner changed in it would be lost, and what the update changes would be in no commit.
    """
    letters = unseen(child)
    touched = sorted(set(letters) & set(paths))
    if touched:
        undo = [f"git update-index {option} {' '.join(names)}" for option, names in by_option(letters, touched).items()]
        raise UpdateError(
            f"the update changes {named(touched)}, which git was told not to look at: {'; '.join(undo)}; "
            "then commit or stash what you changed there"
        )


def by_option(letters: dict[str, str], paths: list[str]) -> dict[str, list[str]]:
    """Return what lets git look at the paths again: it takes one of the two marks off at a time."""
    options = {
        "--no-skip-worktree": [path for path in paths if letters[path].upper() == SKIPPED],
        "--no-assume-unchanged": [path for path in paths if letters[path].islower()],
    }
    return {option: names for option, names in options.items() if names}


def named(paths: list[str]) -> str:
    """Return the first paths, and how many more there are."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def changed_here(child: Path) -> list[str]:
    """Return the files with uncommitted changes in `child`. Raises CalledProcessError."""
    status = ("status", "--porcelain", "-z", "--no-renames", "--", ".")
    told = call(child, *status)
    if told.returncode == 0:
        rows = told.stdout.decode(errors="surrogateescape")
    else:
        rows = git(child, *status, more=as_committed(child))
    prefix = prefix_of(child)
    return [row[3:].removeprefix(prefix) for row in rows.split("\0") if row]


def as_committed(child: Path) -> dict[str, str]:
    """Return the variables with which git lays down every file as it is committed.

    Through no program, which may be missing here (git-lfs), and also what sparse patterns leave out, which a scratch
    work tree takes over from a child where the files are all there.
    """
    told = call(child, "config", "--name-only", "--get-regexp", r"^filter\.").stdout.decode(errors="surrogateescape")
    drivers = {name.rpartition(".")[0] for name in told.splitlines()}
    values = {"smudge": "", "clean": "", "process": "", "required": "false"}
    pairs = [(f"{driver}.{key}", value) for driver in sorted(drivers) for key, value in values.items()]
    return settings([("core.sparseCheckout", "false"), *pairs], os.environ)


def submodules(tree: Path) -> set[str]:
    """Return the paths of the submodules: a scratch work tree holds an empty folder for each."""
    rows = [row.partition("\t") for row in git(tree, "ls-files", "--stage", "-z").split("\0")]
    return {path for told, _, path in rows if told.startswith("160000 ")}


def with_windows_endings(tree: Path) -> set[str]:
    """Return the files that git checks out with CRLF and holds with LF (core.autocrlf, `eol=crlf`)."""
    found = set()
    for row in git(tree, "ls-files", "--eol", "-z").split("\0"):
        told, _, path = row.partition("\t")
        if told.split()[:2] == ["i/lf", "w/crlf"]:
            found.add(path)
    return found
