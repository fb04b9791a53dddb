"""Write an update into a repository so that it is there whole or not at all, whenever the program is killed.

First everything is laid down beside git's own files: the new files, copies of the old ones, the index, and at last the
journal. From then on the update happens: what was interrupted is finished by the next run. An error takes it back.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .file_states import is_file
from .git_calls import UpdateError, git, place_of

FOLDER = "template-update"
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True)
class Journal:
    """What is being written: the versions, the exit code, the child's folder in its repository, the paths in order."""

    old: str
    new: str
    code: int
    prefix: str
    paths: list[str]
    stages: str  # what git's index is told of conflicts
    files: list[dict[str, str]] = field(default_factory=list)  # what became of each; a journal of 0.3.0 does not say it


def journal_folder(child: Path) -> Path:
    """Return where the journal of a repository is kept, in git's own folder."""
    return Path(place_of(child, "--absolute-git-dir")) / FOLDER


def step(name: str) -> None:
    """Do nothing: the place where a test stops the program."""


@contextmanager
def unstopped() -> Iterator[None]:
    """Let nobody stop the program but by a kill; a signal that comes meanwhile works afterwards.

    The mask keeps it from this thread and from git; a thread of a library may take it all the same, hence the handlers.
    """
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    before = {}
    if threading.current_thread() is threading.main_thread():
        known = {number: signal.getsignal(number) for number in STOPS}
        before = {number: handler for number, handler in known.items() if handler is not None}
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def duplicate(source: Path, target: Path) -> None:
    """Put the file (or link) `source` at `target` too, in one step: `target` is as before or as `source`."""
    half = target.with_name(f".{target.name[:100]}.update-half")
    half.unlink(missing_ok=True)
    try:
        try:
            os.link(source, half, follow_symlinks=False)
        except OSError:  # another file system, or one without links
            shutil.copy2(source, half, follow_symlinks=False)
        os.replace(half, target)
    finally:
        half.unlink(missing_ok=True)  # os.replace leaves it where both are the same file already


def check_room(child: Path, tree: Path, paths: list[str]) -> None:
    """Raise UpdateError where something outside of git, or a folder that cannot be written, is in the way."""
    tracked = set(git(child, "ls-files", "-z").split("\0"))
    for path in paths:
        comes = is_file(tree / path)
        for place in [path, *(str(parent) for parent in Path(path).parents[:-1])]:
            there = child / place
            if comes and place != path and (there / ".git").exists():
                raise UpdateError(
                    f"the template brings {path}, and {place} is a repository of its own: move it away first"
                )
            blocks = os.path.lexists(there) and (place == path or there.is_symlink() or not there.is_dir())
            if comes and blocks and place not in tracked and not holds_only(there, child, tracked):
                what = "which" if place == path else f"and {place}"
                raise UpdateError(f"the template brings {path}, {what} is here and not in git: move it away first")
        parent = next(folder for folder in (child / path).parents if folder.is_dir())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise UpdateError(f"{parent} cannot be written: make it writable first")


def holds_only(folder: Path, child: Path, tracked: set[str]) -> bool:
    """Tell whether a folder holds tracked files alone."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    files = [file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()]
    return all(str(file.relative_to(child)) in tracked for file in files)


def lay_down(folder: Path, child: Path, tree: Path, journal: Journal) -> None:
    """Write the new and the old files, the index and at last the journal into `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("new", "old"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(index_of(child), folder / "index")
    for number, path in enumerate(journal.paths):
        step(f"lay down {path}")
        if is_file(tree / path):
            shutil.copy2(tree / path, folder / "new" / str(number), follow_symlinks=False)
            keep_permissions(child / path, folder / "new" / str(number))
        if is_file(child / path):
            shutil.copy2(child / path, folder / "old" / str(number), follow_symlinks=False)
    (folder / "journal.half").write_text(json.dumps(asdict(journal)), encoding="ascii")
    step("journal")
    os.replace(folder / "journal.half", folder / "journal.json")


def keep_permissions(before: Path, after: Path) -> None:
    """Give a file the permissions of the one that it replaces; whether it is a program is its own."""
    if before.is_file() and not before.is_symlink() and not after.is_symlink():
        bits, program = before.stat().st_mode & 0o7666, after.stat().st_mode & 0o111
        after.chmod(bits | (program & (bits >> 2 | bits >> 1 | 0o100)))


def index_of(child: Path) -> Path:
    """Return the file of git's index."""
    return child / place_of(child, "--git-path", "index")


def put(source: Path, target: Path) -> None:
    """Make `target` what `source` is; where there is no source, take it away with the folders that it leaves empty."""
    if os.path.lexists(source):
        if same(source, target):  # what could not be written has not to be taken back
            return
        if target.is_dir() and not target.is_symlink():
            remove_empty(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        duplicate(source, target)
        return
    if is_file(target):  # else it is gone, or already the folder that comes
        target.unlink()


def same(one: Path, other: Path) -> bool:
    """Tell whether two files hold the same and have the same permissions."""
    if read(one) is None or read(one) != read(other):
        return False
    return one.lstat().st_mode == other.lstat().st_mode


def remove_empty(folder: Path) -> None:
    """Remove a folder that holds nothing but empty folders. Raises OSError where it holds more."""
    for inner in sorted((path for path in folder.rglob("*")), reverse=True):
        inner.rmdir()
    folder.rmdir()


def prune(child: Path, paths: list[str]) -> None:
    """Remove the folders above `paths` that are empty now."""
    for path in paths:
        for parent in Path(path).parents[:-1]:
            with suppress(OSError):
                (child / parent).rmdir()


def bring(folder: Path, side: str, child: Path, paths: list[str]) -> None:
    """Put every file of one side, "new" or "old", into the child: first what goes, then what comes, in order."""
    sources = {path: folder / side / str(number) for number, path in enumerate(paths)}
    gone = [path for path, source in sources.items() if not os.path.lexists(source)]
    for path in [*gone, *(path for path in paths if path not in gone)]:
        step(f"{side} {path}")
        put(sources[path], child / path)
        if path in gone:
            prune(child, [path])


def opened(folder: Path) -> Journal:
    """Return the journal that is in `folder`."""
    return Journal(**json.loads((folder / "journal.json").read_text(encoding="ascii")))


def finish(folder: Path, journal: Journal, child: Path) -> Journal:
    """Write what the journal holds, as often as it takes, and forget it."""
    bring(folder, "new", child, journal.paths)
    step("index")
    if journal.stages:
        git(child, "update-index", "-z", "--index-info", stdin=journal.stages)
    step("forget")
    os.replace(folder / "journal.json", folder / "journal.done")
    shutil.rmtree(folder, ignore_errors=True)
    return journal


def take_back(folder: Path, child: Path, paths: list[str]) -> None:
    """Put everything back as it was before the journal."""
    bring(folder, "old", child, paths)
    prune(child, paths)
    duplicate(folder / "index", index_of(child))
    shutil.rmtree(folder, ignore_errors=True)


def check_index(child: Path) -> None:
    """Raise UpdateError where git's index is locked."""
    lock = index_of(child).with_name("index.lock")
    if lock.exists():
        raise UpdateError(f"another git command works here, or one was killed: if none does, remove {lock}")


def write(child: Path, tree: Path, journal: Journal) -> None:
    """Bring the files of `tree` that the journal names into the child, all or none. Raises UpdateError."""
    check_index(child)
    check_room(child, tree, journal.paths)
    folder = journal_folder(child)
    with unstopped():
        try:
            lay_down(folder, child, tree, journal)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise UpdateError(f"the update could not be written, nothing was changed: {error}") from error
        try:
            finish(folder, journal, child)
        except (OSError, subprocess.CalledProcessError) as error:
            try:
                take_back(folder, child, journal.paths)
            except OSError as second:
                raise UpdateError(
                    f"the update could neither be written ({error}) nor taken back ({second}): fix that and run this "
                    "again, which finishes it"
                ) from error
            raise UpdateError(f"the update could not be written and was taken back: {error}") from error


def foreign(folder: Path, journal: Journal, child: Path) -> str | None:
    """Return a file that is neither as before the update nor as after it, so that somebody changed it since."""
    for number, path in enumerate(journal.paths):
        sides = [read(folder / side / str(number)) for side in ("old", "new")]
        if read(child / path) not in sides:
            return path
    return None


def read(place: Path) -> bytes | None:
    """Return what a file holds, where a link points, or None."""
    if place.is_symlink():
        return os.fsencode(place.readlink())
    return place.read_bytes() if place.is_file() else None


def resume(child: Path) -> Journal | None:
    """Finish an update that was killed while it was written, and return it. Raises UpdateError where it cannot."""
    folder = journal_folder(child)
    if not (folder / "journal.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        return None
    check_index(child)
    journal = opened(folder)
    root = Path(place_of(child, "--show-toplevel"), journal.prefix)
    changed = foreign(folder, journal, root)
    if changed:
        raise UpdateError(
            f"the update from {journal.old} to {journal.new} was interrupted, and {changed} was changed since: "
            f"move that file away, then run this again; the update's own files are in {folder / 'new'}"
        )
    with unstopped():
        return finish(folder, journal, root)
