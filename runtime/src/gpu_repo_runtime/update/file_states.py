"""The three states of a child's files, as bytes: as the template had them, as their owner has them, as rendered now."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """What stands at a path: its bytes (of a link: where it points), and whether it is a program or a link."""

    text: bytes
    program: bool = False
    link: bool = False

    @property
    def mergeable(self) -> bool:
        """Tell whether lines can be merged: not in a link, in what is binary, or in UTF-16."""
        return not self.link and b"\0" not in self.text

    @property
    def mode(self) -> str:
        """Return git's mode."""
        return "120000" if self.link else "100755" if self.program else "100644"


Entries = dict[str, Entry]


@dataclass
class Trees:
    """The three states of a child's files, and the folder that holds the owner's and takes the result."""

    base: Entries
    ours: Entries
    theirs: Entries
    result: Path
    windows: Collection[str] = ()  # what git checks out with CRLF here and holds with LF, as ours has it
    modules: Collection[str] = ()  # submodules of the owner: what is in them is another repository's
    touched: set[str] = field(default_factory=set)  # what differs between ours and the result
    added: Entries = field(default_factory=dict)  # what only theirs has: perhaps a dropped file under a new name

    def write(self, path: str, entry: Entry | None) -> None:
        """Write one file of the result, or remove it."""
        self.touched.add(path)
        place = self.result / path
        if entry is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if entry.link:
            place.symlink_to(os.fsdecode(entry.text))
        else:
            place.write_bytes(entry.text.replace(b"\n", b"\r\n") if path in self.windows else entry.text)
            place.chmod(place.stat().st_mode | (0o111 if entry.program else 0))

    def in_the_way(self, path: str) -> str | None:
        """Return the file or folder of the owner that leaves no room for `path`."""
        parents = [str(parent) for parent in Path(path).parents[:-1]]
        blocked = [p for p in parents if p in self.modules or is_file(self.result / p)]
        place = self.result / path
        return blocked[0] if blocked else path if place.is_dir() and not place.is_symlink() else None


def is_file(place: Path) -> bool:
    """Tell whether a file or a link stands at a place."""
    return place.is_symlink() or place.is_file()


def entry_at(place: Path) -> Entry | None:
    """Return what stands at a place, or None."""
    if place.is_symlink():
        return Entry(os.fsencode(place.readlink()), link=True)
    if not place.is_file():
        return None
    return Entry(place.read_bytes(), program=bool(place.stat().st_mode & stat.S_IXUSR))


def files_under(folder: Path) -> set[str]:
    """Return the paths of all files under `folder`, without git's own."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)) for path in found if ".git" not in path.relative_to(folder).parts}


def entries(folder: Path, windows: Collection[str] = ()) -> Entries:
    """Return all files under `folder`; those of `windows` as git holds them, with LF."""
    found = {path: entry_at(folder / path) for path in files_under(folder)}
    there = {path: entry for path, entry in found.items() if entry is not None}
    return there | {p: replace(there[p], text=there[p].text.replace(b"\r\n", b"\n")) for p in windows if p in there}
