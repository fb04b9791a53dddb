"""Folders of weights: a cache with one for each lock, or a volume. A folder with a lock in it is whole.

A file gets its name after its SHA-256 was checked, and the lock is written last. Of a program that is killed, whole
files stay, and the next one brings the rest.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lockfile import LOCK, File, Lock, Weights, checked_paths, misses, read, sha256_of, write
from .problems import AWAY, WRONG_USE, WeightsError, say
from .sources import Source, open_source
from .wanted import Wanted, check_secret, shown


def cache() -> Path:
    """Return where weights are kept: WEIGHTS_CACHE, else gpu-repo/weights in the user's cache. Raises WeightsError."""
    if own := os.environ.get("WEIGHTS_CACHE"):
        return Path(own).expanduser().absolute()
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise WeightsError("this user has no home folder: set WEIGHTS_CACHE to a folder", WRONG_USE) from None
    return base.absolute() / "gpu-repo" / "weights"


def place_of(lock: Lock) -> Path:
    """Return the folder of a lock in the cache, whether or not it is there."""
    return cache() / "sets" / lock.digest.removeprefix("sha256:")


def is_whole(folder: Path, lock: Lock) -> bool:
    """Tell whether a folder has the weights of a lock."""
    try:
        return read(folder / LOCK).digest == lock.digest and not misses(folder, lock)
    except WeightsError:
        return False


def fill(folder: Path, lock: Lock, root: Path) -> None:
    """Bring the weights of a lock to a folder; root: of the repository. Raises WeightsError."""
    if is_whole(folder, lock):
        return
    with _alone(folder):
        if is_whole(folder, lock):
            return
        (folder / LOCK).unlink(missing_ok=True)
        for one in lock.weights:
            _fill(folder / one.name, one, root)
        write(folder / LOCK, lock)
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)  # an image keeps the modes, and its user is another one


def _fill(folder: Path, weights: Weights, root: Path) -> None:
    """Bring what a folder does not have with its SHA-256: other weights of the same size may be there."""
    missing = [file for file in weights.files if not _is(folder / file.path, file.sha256)]
    missing = [file for file in missing if not _link_twin(file.sha256, folder / file.path)]
    if missing:
        paths = tuple(file.path for file in weights.files)
        source = open_source(Wanted(weights.name, weights.source, weights.revision, paths), root)
        for file in missing:
            _bring(source, file.path, folder / file.path, file.sha256, LOCK)


def lock(wanted: list[Wanted], root: Path) -> Lock:
    """Return what the sources have now of all that is wanted; every byte of it was read. Raises WeightsError.

    The files are in the cache then, and the model can be loaded without a download.
    """
    new = cache() / "sets" / "new"
    with _alone(new):
        for left in new.iterdir():  # by one that was killed
            shutil.rmtree(left)
        found = Lock(tuple(_looked_at(one, root, new / one.name) for one in wanted))
        for path in found.files():
            target = place_of(found) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (new / path).replace(target)
    fill(place_of(found), found, root)
    return found


def _looked_at(wanted: Wanted, root: Path, folder: Path) -> Weights:
    """Bring what is wanted to a folder, and return what it is."""
    check_secret(wanted)
    source, files = open_source(wanted, root), []
    for path in _asked_for(wanted, source):
        told, target = source.files[path], folder / path
        if not (told and _link_twin(told, target)):
            told = _bring(source, path, target, told, "its source")
        files.append(File(path, target.stat().st_size, told))
    return Weights(wanted.name, wanted.source, source.revision, tuple(files), wanted.asked)


def _asked_for(wanted: Wanted, source: Source) -> list[str]:
    """Return the paths that are wanted. Raises WeightsError where a file that is named is not there."""
    lacking = wanted.lacks(source.files)
    plain = [name for name in lacking if not set(name) & set("*?[")]
    paths = checked_paths([path for path in source.files if wanted.takes(path)], wanted.source)
    if plain or not paths:
        what = f"no {plain[0]}" if plain else "nothing that matches files" if wanted.files else "no files"
        some = ", ".join(sorted(source.files)[:5]) or "nothing"
        raise WeightsError(f"[{wanted.name}]: {shown(wanted.source)} has {what}; it has {some}", WRONG_USE)
    if lacking:
        say(f"{wanted.name}: no file matches {', '.join(lacking)}")
    return paths


def _bring(source: Source, path: str, target: Path, told: str, by: str) -> str:
    """Bring a file of a source and return its SHA-256. Raises WeightsError where another one was told, by whom."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    partial.unlink(missing_ok=True)
    say(f"{path}: fetching")
    source.bring(path, partial)
    with partial.open("rb") as file:
        os.fsync(file)
    found = sha256_of(partial)
    if told not in ("", found):
        partial.unlink()
        again = "run it again, or scripts/weights lock where that is meant"
        raise WeightsError(
            f"{path} of {source.shown} has other bytes than {by} says, with the SHA-256 {found}: {again}"
        )
    partial.chmod(0o444)  # links share it
    partial.replace(target)
    return found


def damaged(folder: Path, lock: Lock) -> list[str]:
    """Return the files of a lock that are not in a folder as they were locked; every byte is read."""
    return [path for path, file in lock.files().items() if not _is(folder / path, file.sha256)]


def _is(place: Path, sha256: str) -> bool:
    try:
        return sha256_of(place) == sha256
    except OSError:
        return False


def _link_twin(sha256: str, target: Path) -> bool:
    """Take a file from another lock in the cache: a new version of weights often changes one of its files."""
    for there in cache().glob(f"sets/*/{LOCK}"):
        with suppress(WeightsError):
            for path, other in read(there).files().items():
                if other.sha256 == sha256 and _is(there.parent / path, sha256):
                    _link(there.parent / path, target)
                    return True
    return False


def _link(source: Path, target: Path) -> None:
    """Let a file be at a second place too, by a link where the disk can; what was there is replaced at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    partial.unlink(missing_ok=True)
    try:
        os.link(source, partial)
    except OSError:
        shutil.copyfile(source, partial)
    partial.replace(target)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other program fills a folder. On a disk without locks nobody waits."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise WeightsError(f"{folder} cannot be made: {error.strerror}; WEIGHTS_CACHE names a cache", AWAY) from None
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
