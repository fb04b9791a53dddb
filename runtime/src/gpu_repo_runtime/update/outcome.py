"""What an update does to each file of a child, and how an edit that it would lose is kept.

Three states of a file decide: as the template rendered it at the last update (base), the owner's (ours) and as the
template renders it now (theirs). Copier itself deletes a file that the template renamed, dropped or switched off,
edited or not, loses what is not UTF-8, and exits 0 with conflicts; here each is merged as bytes, or kept and said.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from .file_states import Entries, Entry, Trees, files_under
from .git_calls import call, git, prefix_of

__all__ = ["ORDER", "Entries", "Entry", "Outcome", "Trees", "files_under", "outcomes"]

SAME_FILE = 0.5  # share of equal lines from which an added file counts as a dropped one under a new name
ORDER = ("at risk", "conflict", "merged", "updated", "added", "removed", "kept", "opted out")
LABELS = ("before updating", "last update", "after updating")
JOINED = b"# from the template\n"  # in a file that `make adopt` united: what is above is the owner's alone


@dataclass(frozen=True)
class Outcome:
    """One file: its path in the child, what became of it (a word of ORDER) and, where it matters, why."""

    path: str
    kind: str
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields for JSON."""
        return asdict(self)


def new_name(dropped: Entry, added: Entries) -> str | None:
    """Return which of the `added` files is the `dropped` one under a new name: the most alike, at least half."""
    lines = dropped.text.splitlines()
    likeness = {
        path: 1.0 if entry.text == dropped.text else
        difflib.SequenceMatcher(None, lines, entry.text.splitlines(), autojunk=False).ratio()
        for path, entry in added.items()
        if lines and dropped.mergeable and entry.mergeable
    }  # fmt: skip
    best = max(likeness, key=lambda path: likeness[path], default=None)
    return best if best is not None and likeness[best] >= SAME_FILE else None


def has_crlf(text: bytes) -> bool:
    """Tell whether every line ends as on Windows."""
    return b"\r\n" in text and text.count(b"\n") == text.count(b"\r\n")


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool] | None:
    """Merge two edits of `base`; return the text and whether it holds conflict markers, None where git cannot.

    An owner's line endings stay where only the template's differ from them.
    """
    windows = has_crlf(ours) and not has_crlf(base)
    own, piece = split_joined(ours.replace(b"\r\n", b"\n") if windows else ours, base)
    with TemporaryDirectory() as folder:
        texts = (piece, base, theirs)
        for name, text in zip(LABELS, texts, strict=True):
            Path(folder, name).write_bytes(text)
        labels = [part for label in LABELS for part in ("-L", label)]
        done = call(Path(folder), "merge-file", "-p", *labels, *LABELS)
    if not 0 <= done.returncode < 128:
        return None
    text = own + done.stdout
    return (text.replace(b"\n", b"\r\n") if windows else text), done.returncode != 0


def split_joined(ours: bytes, base: bytes) -> tuple[bytes, bytes]:
    """Return what an owner had before the template, and the piece below it that the template's own text became.

    Merged as a whole, each line that the template adds at its top would conflict with the owner's lines above it.
    """
    above, mark, piece = ours.partition(JOINED)
    return (above + mark, piece) if mark and JOINED not in base else (b"", ours)


def mark_unmerged(tree: Path, path: str, stages: Iterable[tuple[int, Entry | None]]) -> None:
    """Tell git that `path` is a conflict between `stages` (1 base, 2 ours, 3 theirs)."""
    name = prefix_of(tree) + path
    lines = [f"0 {'0' * 40}\t{name}"]
    for stage, entry in stages:
        if entry is not None:
            stored = call(tree, "hash-object", "-w", "--stdin", stdin=entry.text).stdout.decode().strip()
            lines.append(f"{entry.mode} {stored} {stage}\t{name}")
    git(tree, "update-index", "-z", "--index-info", stdin="".join(f"{line}\0" for line in lines))


def merged_program(base: Entry, ours: Entry, theirs: Entry) -> bool:
    """Return whether the result is a program: who changed it decides."""
    return theirs.program if ours.program == base.program else ours.program


def mode_note(before: Entry, after: Entry) -> str:
    """Return what became of the file's mode, "" where nothing did."""
    if before.program == after.program:
        return ""
    return "it can be executed now" if after.program else "it cannot be executed any more"


def keep_dropped(trees: Trees, path: str) -> Outcome:
    """Keep the owner's edit of a file that the template dropped: under its new name, else in place."""
    base, ours = trees.base[path], trees.ours[path]
    new = new_name(base, trees.added)
    if new is None or trees.in_the_way(new):
        return Outcome(path, "at risk", "the template dropped this file or an answer switched it off: your text stays")
    theirs = trees.added[new]
    both = merge_lines(base.text, ours.text, theirs.text) if ours.mergeable else None
    if both is None:
        return Outcome(path, "at risk", f"the template renamed this file to {new}: your text is binary and stays here")
    text, conflict = both
    del trees.added[new]
    trees.write(path, None)
    trees.write(new, Entry(text, merged_program(base, ours, theirs)))
    note = f"the template renamed this file: your edit is in {new}"
    if conflict:
        mark_unmerged(trees.result, new, [(1, base), (2, ours), (3, theirs)])
        note += ", between conflict markers"
    return Outcome(path, "at risk", note)


def merge_both(trees: Trees, path: str) -> Outcome:
    """Merge a file that template and owner changed."""
    base, ours, theirs = trees.base[path], trees.ours[path], trees.theirs[path]
    program = merged_program(base, ours, theirs)
    if ours.text == base.text and ours.link == base.link:
        text, conflict = theirs.text, False
    elif theirs.text == base.text and theirs.link == base.link:
        text, conflict = ours.text, False
    else:
        able = all(entry.mergeable for entry in (base, ours, theirs))
        both = merge_lines(base.text, ours.text, theirs.text) if able else None
        if both is None:
            what = "your file is a link" if ours.link else "it is binary or in UTF-16"
            note = f"both sides changed it, and {what}: your file stays, the template's is left out"
            return Outcome(path, "at risk", note)
        text, conflict = both
    link = theirs.link if ours.link == base.link else ours.link
    after = Entry(text, program and not link, link)
    trees.write(path, after)
    if conflict:
        mark_unmerged(trees.result, path, [(1, base), (2, ours), (3, theirs)])
        return Outcome(path, "conflict", "both sides changed the same lines")
    return Outcome(path, "merged", mode_note(ours, after))


def what_is(trees: Trees, there: str, path: str) -> str:
    """Return what stands at `there`, where there is no room for `path`."""
    if there in trees.modules:
        return "a submodule"
    return "a folder" if there == path else "a link" if (trees.result / there).is_symlink() else "a file"


def take_theirs(trees: Trees, path: str) -> Outcome:
    """Take a file that only the template changed."""
    ours, theirs = trees.ours.get(path), trees.theirs.get(path)
    if theirs is not None and (there := trees.in_the_way(path)):
        return Outcome(
            path, "at risk", f"you have {what_is(trees, there, path)} at {there}: the template's file is left out"
        )
    if ours is None and path not in trees.added:  # it is the new name of a file, and written
        return Outcome(path, "added")
    trees.write(path, theirs)
    if theirs is None:
        return Outcome(path, "removed")
    return Outcome(path, "added") if ours is None else Outcome(path, "updated", mode_note(ours, theirs))


def why_gone(trees: Trees, path: str) -> str:
    """Return what the owner did to a file that is not in its place any more, and what follows from it."""
    link = next((str(p) for p in PurePosixPath(path).parents if (trees.result / p).is_symlink()), None)
    if link:
        return f"your {link} is a link: fixes to what is behind it do not arrive"
    base, theirs = trees.base[path], trees.theirs.get(path)
    new = new_name(base, near(trees, path))
    if new is None:
        return "you deleted it: fixes to it do not arrive"
    changed = theirs not in (base, None)
    now = "take over by hand what the template changed" if changed else "fixes to it do not arrive"
    return f"you moved it to {new}: {now}"


def near(trees: Trees, path: str) -> Entries:
    """Return the owner's own files to which one of the template may have been moved: same name, folder or text."""
    was, base = PurePosixPath(path), trees.base[path]
    own = {p: entry for p, entry in trees.ours.items() if p not in trees.base and p not in trees.theirs}
    return {
        p: entry
        for p, entry in own.items()
        if entry.text == base.text or PurePosixPath(p).name == was.name or PurePosixPath(p).parent == was.parent
    }


def settle(trees: Trees, path: str) -> Outcome | None:
    """Write what becomes of one file and return it; None where nothing happened."""
    base, ours, theirs = trees.base.get(path), trees.ours.get(path), trees.theirs.get(path)
    if ours is None and base is not None:
        return Outcome(path, "opted out", why_gone(trees, path))
    if theirs in (base, ours):
        return Outcome(path, "kept") if base is not None and ours != base else None
    if ours == base:
        return take_theirs(trees, path)
    if theirs is None:
        return keep_dropped(trees, path)
    if base is None and ours is not None and replace(ours, program=theirs.program) == theirs:
        trees.write(path, theirs)
        return Outcome(path, "updated", mode_note(ours, theirs))
    if base is None:
        return Outcome(
            path, "at risk", "the template has a file of its own here: your text stays, its text is left out"
        )
    return merge_both(trees, path)


def outcomes(trees: Trees) -> list[Outcome]:
    """Write the result and return what became of each file of the template, in the order of ORDER."""
    trees.added = {p: e for p, e in trees.theirs.items() if p not in trees.base and p not in trees.ours}
    dropped = {path for path in trees.base if path not in trees.theirs}
    order = [*sorted(dropped), *sorted(trees.theirs)]  # what goes makes room for what comes
    found = [settle(trees, path) for path in order]
    told = [outcome for outcome in found if outcome is not None]
    return sorted(told, key=lambda outcome: (ORDER.index(outcome.kind), outcome.path))
