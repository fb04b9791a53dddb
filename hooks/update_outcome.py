"""What an update does to each file of a child, and how an edit that it would lose is kept.

Three texts decide: the file as the template rendered it at the last update (base), the owner's file (ours) and the
file after Copier's update (result). Copier itself deletes a file that the template renamed, dropped or switched off,
edited or not, and exits 0 with conflicts; here both are found and said.
"""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

MARKERS = (b"<<<<<<< before updating", b">>>>>>> after updating")
SAME_FILE = 0.5  # share of equal lines from which an added file counts as a dropped one under a new name
ORDER = ("at risk", "conflict", "merged", "updated", "added", "removed", "kept", "opted out")


@dataclass(frozen=True)
class Outcome:
    """One file: its path in the child, what became of it (a word of ORDER) and, where it matters, why."""

    path: str
    kind: str
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Trees:
    """Folders with the three states; `answers_file` is Copier's own and is left to Copier."""

    base: Path
    ours: Path
    result: Path
    answers_file: str = ".copier-answers.yml"


def git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run git in `folder`, without the owner's hooks, and return what it prints. Raises CalledProcessError."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, input=stdin).stdout


def content(folder: Path, path: str) -> bytes | None:
    """Return what a file holds (a link: where it points), or None where there is none."""
    place = folder / path
    if place.is_symlink():
        return str(place.readlink()).encode()
    return place.read_bytes() if place.is_file() else None


def files_under(folder: Path) -> set[str]:
    """Return the paths of all files under `folder`, without git's own."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)) for path in found if ".git" not in path.relative_to(folder).parts}


def changed_files(tree: Path) -> set[str]:
    """Return every path that differs from the last commit, untracked and ignored files included."""
    listed = git(tree, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching")
    return {entry[3:].rstrip("/") for entry in listed.split("\0") if entry}


def unmerged_files(tree: Path) -> set[str]:
    """Return the paths that the index holds as conflicts."""
    return {entry.split("\t", 1)[1] for entry in git(tree, "ls-files", "--unmerged", "-z").split("\0") if entry}


def has_new_markers(result: bytes | None, ours: bytes | None) -> bool:
    """Tell whether the update wrote conflict markers into a file."""
    texts = [{line.rstrip() for line in (text or b"").splitlines()} for text in (result, ours)]
    return any(marker in texts[0] and marker not in texts[1] for marker in MARKERS)


def lost_lines(base: bytes | None, ours: bytes, result: bytes | None) -> list[bytes]:
    """Return the lines that the owner added to `base` and that `result` no longer holds."""
    if b"\0" in ours:
        return [] if result == ours else [b"(binary)"]
    added = Counter(ours.splitlines()) - Counter((base or b"").splitlines())
    return list((added - Counter((result or b"").splitlines())).elements())


def new_name(dropped: bytes, added: dict[str, bytes]) -> str | None:
    """Return which of the `added` files is the `dropped` one under a new name: the most alike, at least half."""
    lines = dropped.splitlines()
    likeness = {
        path: difflib.SequenceMatcher(None, lines, text.splitlines(), autojunk=False).ratio()
        for path, text in added.items()
        if lines and b"\0" not in text
    }
    best = max(likeness, key=lambda path: likeness[path], default=None)
    return best if best is not None and likeness[best] >= SAME_FILE else None


def put(tree: Path, path: str, source: Path) -> None:
    """Copy one file (or link) with its mode to `path` in `tree`."""
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def mark_unmerged(tree: Path, path: str, stages: Iterable[tuple[int, Path]]) -> None:
    """Tell git that `path` is a conflict between the texts of `stages` (1 base, 2 ours, 3 theirs)."""
    lines = [f"0 {'0' * 40}\t{path}"]
    lines += [f"100644 {git(tree, 'hash-object', '-w', str(file)).strip()} {stage}\t{path}" for stage, file in stages]
    git(tree, "update-index", "--index-info", stdin="\n".join(lines) + "\n")


def move_edit(trees: Trees, old: str, new: str) -> bool:
    """Merge the owner's edit of `old` into `new`, its new name; return whether that left a conflict."""
    with TemporaryDirectory() as folder:
        theirs = Path(folder, "theirs")
        shutil.copyfile(trees.result / new, theirs)
        merge = ["git", "merge-file", "-p", "-L", "before updating", "-L", "last update", "-L", "after updating"]
        files = [str(trees.ours / old), str(trees.base / old), str(theirs)]
        done = subprocess.run([*merge, *files], capture_output=True, check=False)
        (trees.result / new).write_bytes(done.stdout)
        if done.returncode:
            stages = [(1, trees.base / old), (2, trees.ours / old), (3, theirs)]
            mark_unmerged(trees.result, new, stages)
    return done.returncode != 0


def keep_dropped(trees: Trees, path: str, added: dict[str, bytes]) -> Outcome:
    """Keep the owner's edit of a file that the update deleted: under its new name, else in place."""
    base = content(trees.base, path) or b""
    new = None if b"\0" in base else new_name(base, added)
    if new is None:
        put(trees.result, path, trees.ours / path)
        return Outcome(path, "at risk", "the template dropped this file or an answer switched it off: your text stays")
    conflict = move_edit(trees, path, new)
    note = f"the template renamed this file: your edit is in {new}"
    return Outcome(path, "at risk", note + (", between conflict markers" if conflict else ""))


def classify(trees: Trees, path: str, conflicts: set[str], added: dict[str, bytes]) -> Outcome | None:
    """Return what became of one file, after an edit at risk was kept; None where nothing happened."""
    base, ours, result = (content(folder, path) for folder in (trees.base, trees.ours, trees.result))
    if path in conflicts or has_new_markers(result, ours):
        return Outcome(path, "conflict", "both sides changed the same lines")
    if ours is None:
        if result is not None:
            return Outcome(path, "added")
        return Outcome(path, "opted out", "you deleted it: fixes to it do not arrive") if base is not None else None
    edited = ours != base
    if result == ours:
        return Outcome(path, "kept") if edited and base is not None else None
    if path == trees.answers_file or not edited:
        return Outcome(path, "removed" if result is None else "updated")
    if result is None:
        return keep_dropped(trees, path, added)
    if lost_lines(base, ours, result):
        put(trees.result, path, trees.ours / path)
        return Outcome(
            path, "at risk", "the template has a file of its own here: your text stays, its text is left out"
        )
    return Outcome(path, "merged")


def outcomes(trees: Trees) -> list[Outcome]:
    """Return what became of each file of template and owner, in the order of ORDER; keeps edits at risk in `result`."""
    changed = changed_files(trees.result)
    conflicts = unmerged_files(trees.result)
    arrived = {path: content(trees.result, path) for path in changed if content(trees.ours, path) is None}
    added = {path: text for path, text in arrived.items() if text is not None}
    found = [classify(trees, path, conflicts, added) for path in sorted(changed | files_under(trees.base))]
    told = [outcome for outcome in found if outcome is not None]
    return sorted(told, key=lambda outcome: (ORDER.index(outcome.kind), outcome.path))
