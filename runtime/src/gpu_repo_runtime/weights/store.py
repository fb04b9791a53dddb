"""Folders of weights: a cache with one for each lock, or a volume. A folder with a lock in it is whole.

A file gets its name after its SHA-256 was checked, and the lock is written last. After a kill, whole files stay, and
the next command brings the rest.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lockfile import LOCK, File, Lock, Weights, read, sha256_of, write
from .problems import WRONG_USE, WeightsError, say
from .sources import Source, open_source
from .wanted import Wanted

FOLDER = "weights"


def cache() -> Path:
    """Return where weights are kept: WEIGHTS_CACHE, else gpu-repo/weights in the user's cache. Raises WeightsError."""
    default = f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/gpu-repo/weights"
    place = os.path.expanduser(os.environ.get("WEIGHTS_CACHE") or default)
    if place.startswith("~"):
        raise WeightsError("this user has no home folder: set WEIGHTS_CACHE to a folder", WRONG_USE)
    return Path(place).absolute()


def place_of(lock: Lock) -> Path:
    """Return the folder of a lock in the cache, which may not exist."""
    return cache() / "sets" / lock.digest.removeprefix("sha256:")


def in_git(lock: Lock) -> Lock:
    """Return the part of a lock whose source is the folder weights/NAME of the repository."""
    return Lock(tuple(one for one in lock.weights if Path(one.source) == Path(FOLDER, one.name)))


def place_in(root: Path, lock: Lock) -> Path:
    """Return where the weights of a repository are: its folder weights if all are there, else the cache."""
    return root / FOLDER if in_git(lock) == lock else place_of(lock)


def lacking(folder: Path, lock: Lock) -> str:
    """Return why a folder does not have the weights of a lock, "" if it has them. Bytes are not read."""
    try:
        there = read(folder / LOCK)
    except WeightsError:
        return f"it has no {LOCK}"
    if there.digest != lock.digest:
        return f"it has the weights {there.digest}, not {lock.digest}"
    for path, file in lock.files().items():
        place = folder / path
        if not place.is_file() or place.stat().st_size != file.size:
            return f"{path} is missing or has another size"
    return ""


def damaged(folder: Path, lock: Lock) -> list[str]:
    """Return the files of a lock that are missing or different in a folder. Reads every byte."""
    return [path for path, file in lock.files().items() if not _is(folder / path, file.sha256)]


def fill(folder: Path, lock: Lock, root: Path) -> None:
    """Bring the weights of a lock to a folder; root: of the repository. Raises WeightsError."""
    with _alone(folder):
        if not lacking(folder, lock):
            return
        (folder / LOCK).unlink(missing_ok=True)
        copies = _copies()
        for one in lock.weights:
            wanted = Wanted(one.name, one.source, one.revision, tuple(file.path for file in one.files))
            source = functools.cache(functools.partial(open_source, wanted, root))
            for file in one.files:
                _bring(source, file.path, folder / one.name, file.sha256, copies)
        write(folder / LOCK, lock)
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)  # an image keeps the modes, and its user is another one


def lock(wanted: list[Wanted], root: Path) -> Lock:
    """Read every byte of the wanted weights and return their lock. Raises WeightsError.

    The files are in the cache then, and the model can be loaded without a download.
    """
    new = cache() / "sets" / "new"
    with _alone(new.parent):
        found = Lock(tuple(_locked(one, root, new / one.name) for one in wanted))
        write(new / LOCK, found)
        fill(place_of(found), found, root)  # by links
        shutil.rmtree(new)
    return found


def _locked(wanted: Wanted, root: Path, folder: Path) -> Weights:
    source, copies = open_source(wanted, root), _copies()
    files: list[File] = []
    for path in wanted.chosen(source.files):
        sha256 = _bring(lambda: source, path, folder, source.files[path], copies)
        files.append(File(path, (folder / path).stat().st_size, sha256))
    return Weights(wanted.name, wanted.source, source.revision, tuple(files), wanted.asked)


def _bring(source: Callable[[], Source], path: str, folder: Path, expected: str, copies: dict[str, Path]) -> str:
    """Bring a file to its path in a folder and return its SHA-256. Raises WeightsError if another one is expected.

    A file that is there, or has a copy in the cache, is not brought again. expected: "" if unknown.
    """
    target = folder / path
    if expected and _is(target, expected):
        return expected
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    partial.unlink(missing_ok=True)
    if expected in copies:
        _link(copies[expected], partial)
    if not _is(partial, expected):
        partial.unlink(missing_ok=True)  # it may be a link to a damaged copy
        say(f"{path}: fetching")
        source().bring(path, partial)
        with partial.open("rb") as file:
            os.fsync(file)
        found = sha256_of(partial)
        if expected not in ("", found):
            partial.unlink()
            mend = "run it again, or scripts/weights lock if the change is intended"
            raise WeightsError(f"[{folder.name}] {path} has the SHA-256 {found}, expected {expected}: {mend}")
        partial.chmod(0o444)  # links share it
        expected = found
    partial.replace(target)
    return expected


def _link(copy: Path, target: Path) -> None:
    """Let a file be at a second place too, by a link where the disk can. It may be gone by now."""
    with suppress(OSError):
        try:
            os.link(copy, target)
        except OSError:
            shutil.copy(copy, target)


def _copies() -> dict[str, Path]:
    """Return the files of all whole folders in the cache by their SHA-256."""
    found: dict[str, Path] = {}
    for place in cache().glob(f"sets/*/{LOCK}"):
        with suppress(WeightsError):
            found.update({file.sha256: place.parent / path for path, file in read(place).files().items()})
    return found


def _is(place: Path, sha256: str) -> bool:
    try:
        return sha256_of(place) == sha256
    except OSError:
        return False


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other program fills a folder. A disk without locks does not make programs wait."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
