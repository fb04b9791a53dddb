"""Another answer: the package moves with all that is in it, and the owner's files get what the answer changes in them.

An update leaves seed files alone. Only where their owner gives another answer is its effect on them merged: what the
same version of the template renders with the new answers, against what it rendered with the old ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .git_calls import UpdateError, git
from .outcome import Entries, Outcome, Trees
from .ownership import Owners


def moved_path(path: str, old: str, new: str) -> str:
    """Return where a path stands once the package is called `new`."""
    return f"src/{new}/{path.removeprefix(f'src/{old}/')}" if path.startswith(f"src/{old}/") else path


def move_package(trees: Trees, old: str, new: str) -> Outcome:
    """Move the package of the owner, and of what it is compared with, to its new name. Raises UpdateError."""
    source, target = trees.result / "src" / old, trees.result / "src" / new
    moved_by_hand = target.is_dir() and not source.exists()
    if target.exists() and not moved_by_hand:
        raise UpdateError(f"src/{new} is here already: move it away first, or choose another package_name")
    check_movable(trees, old)
    if not source.is_dir() and not moved_by_hand:
        return Outcome(
            f"src/{old}/", "at risk", f"it is not here, so nothing was moved: call your package {new} yourself"
        )
    trees.touched |= {path for path in trees.ours if path.startswith(f"src/{old}/")}
    trees.base, trees.ours = (
        {moved_path(path, old, new): entry for path, entry in state.items()} for state in (trees.base, trees.ours)
    )
    moved = {moved_path(path, old, new): entry for path, entry in trees.theirs.items()}
    trees.theirs = moved | trees.theirs  # what is rendered under the new name already counts more
    trees.theirs = {path: entry for path, entry in trees.theirs.items() if not path.startswith(f"src/{old}/")}
    trees.touched |= {path for path in trees.ours if path.startswith(f"src/{new}/")}
    if moved_by_hand:
        return Outcome(f"src/{new}/", "kept", f"you moved the package here from src/{old}/")
    os.rename(source, target)
    return Outcome(f"src/{new}/", "updated", f"the package moved here from src/{old}/ with every file in it")


def check_movable(trees: Trees, old: str) -> None:
    """Raise UpdateError where the package is behind a link, or holds or is a repository of its own."""
    link = next((path for path in ("src", f"src/{old}") if (trees.result / path).is_symlink()), None)
    module = next(
        (path for path in sorted(trees.modules) if path in ("src", f"src/{old}") or path.startswith(f"src/{old}/")),
        None,
    )
    if link or module:
        what = f"{link} is a link" if link else f"{module} is a submodule"
        raise UpdateError(f"{what}, and an update moves nothing through it: put a plain folder there first")


def lost_package(child: Path, answers: Mapping[str, Any]) -> list[Outcome]:
    """Return that the package has another name in src/ than in the answers, where no history tells how that came."""
    name, source = package(answers), child / "src"
    if not name or not source.is_dir() or git(child, "ls-files", "--", f"src/{name}"):
        return []
    others = sorted({place.parent.name for place in source.glob("*/*.py") if place.parent.name.isidentifier()})
    if not others:
        return []
    note = (
        f"the answers call the package {name}, and src/ has {' and '.join(others)}: scripts/update "
        f"--answer package_name={others[0]} gives the template the name that is here; another --answer then moves it"
    )
    return [Outcome(f"src/{name}/", "at risk", note)]


def left_behind(child: Path, old: str) -> list[Outcome]:
    """Return the files of the package that git does not keep, so that they did not move with it."""
    ignored = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--", f"src/{old}")
    found = [path for path in git(child, *ignored).split("\0") if path and not path.endswith("__pycache__/")]
    return [Outcome(path, "at risk", "git ignores it, so it stays here: move it yourself") for path in found]


def merge_seeds(trees: Trees, rendered: Entries, before: Owners, after: Owners, old: str, new: str) -> list[Outcome]:
    """Let the new answers reach the seeds: those that come, go and change; return those that need their owner."""
    told: list[Outcome] = []
    seeds = {moved_path(path, old, new) for path in trees.base if before.of(moved_path(path, new, old)) == "seed"}
    for path in sorted(seeds | {path for path in rendered if after.of(path) == "seed"}):
        base, ours, theirs = trees.base.get(path), trees.ours.get(path), rendered.get(path)
        if path.endswith(".lock") and ours is not None and ours != base and theirs != base:
            told.append(Outcome(path, "at risk", "it was resolved for the answers before: run scripts/lock"))
            theirs = base
        if theirs is None:
            trees.theirs.pop(path, None)
        else:
            trees.theirs[path] = theirs
    return told


def uses_of(trees: Trees, old: str, new: str) -> list[Outcome]:
    """Return the files in which the owner's own lines still use the package's old name."""
    name = re.escape(old).encode()
    use = re.compile(rb"(?:from|import)\s+%b\b|(?<![\w.])%b[.:]\w|\bsrc/%b\b|-m\s+%b\b" % (name, name, name, name))
    told = []
    for path in sorted(trees.ours):
        place = trees.result / path
        if place.is_symlink() or not place.is_file():
            continue
        known = set(trees.theirs[path].text.splitlines()) if path in trees.theirs else set()
        lines = [
            n for n, line in enumerate(place.read_bytes().splitlines(), 1) if line not in known and use.search(line)
        ]
        if lines:
            where = ", ".join(map(str, lines[:5])) + (" and more" if len(lines) > 5 else "")
            told.append(Outcome(path, "at risk", f"line {where} uses the package's old name: write {new} for {old}"))
    return told


def package(answers: Mapping[str, Any]) -> str:
    """Return the name of the package, "" where a template asks for none."""
    return str(answers.get("package_name") or "")
