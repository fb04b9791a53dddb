"""Folders of weights: a cache with one for each lock, or a volume. A folder with a lock in it is whole.

A file gets its name after its SHA-256 was checked, and the lock is written last. A program that is killed leaves parts,
which the next one continues.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lockfile import LOCK, File, Lock, Weights, checked_paths, misses, read, sha256_of, write
from .problems import AWAY, WRONG_USE, WeightsError, amount, say
from .sources import Source, open_source
from .wanted import Wanted, check_secret, shown
from .web import BLOCK

_TOLD_EVERY_S = 10.0


def cache() -> Path:
    """Return where weights are kept: WEIGHTS_CACHE, else gpu-repo/weights in the user's cache. Raises WeightsError."""
    if own := os.environ.get("WEIGHTS_CACHE"):
        return Path(os.path.expanduser(own)).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise WeightsError(
            f"there is no place for weights: user {os.getuid()} has no home folder; set WEIGHTS_CACHE to a folder",
            WRONG_USE,
        )
    return Path(base, "gpu-repo", "weights")


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
            _bring(one, folder / one.name, root)
        write(folder / LOCK, lock)
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)  # an image keeps the modes, and its user is another one


def _bring(weights: Weights, folder: Path, root: Path) -> None:
    """Bring what a folder does not have with its SHA-256: other weights of the same size may be there."""
    missing = [file for file in weights.files if not _is(folder / file.path, file)]
    for file in list(missing):
        if twin := _twin(file):
            _linked(twin, folder / file.path)
            missing.remove(file)
    if not missing:
        return
    paths = tuple(file.path for file in weights.files)
    source = open_source(Wanted(weights.name, weights.source, weights.revision, paths), root)
    for file in missing:
        target = folder / file.path
        partial = target.with_name(f".{target.name}.part")
        for begun in (partial.exists(), False):
            found = _transfer(source, file.path, partial, file.size)
            if (found.size, found.sha256) == (file.size, file.sha256):
                break
            partial.unlink()
            if not begun:  # nothing of an earlier version is in it
                raise WeightsError(
                    f"{file.path} of {shown(weights.source)} has other bytes than weights.lock says: {found.size} "
                    f"bytes, sha256 {found.sha256}; if that is meant, run scripts/weights lock"
                )
        _keep(partial, target)


def lock(wanted: list[Wanted], root: Path) -> Lock:
    """Return what the sources have now of all that is wanted; every byte of it was read. Raises WeightsError.

    The files are in the cache then, and the model can be loaded without a download.
    """
    found, parts = [], {}
    with _alone(cache() / "partial"):
        for one in wanted:
            check_secret(one)
            source = open_source(one, root)
            files = []
            for path in _asked_for(one, source):
                file, parts[f"{one.name}/{path}"] = _looked_at(one, source, path)
                files.append(file)
            found.append(Weights(one.name, one.source, source.revision, tuple(files)))
        locked = Lock(tuple(found))
        place = place_of(locked)
        for path, part in parts.items():
            if part.parent == cache() / "partial":
                _keep(part, place / path)
            elif not _is(place / path, locked.files()[path]):
                _linked(part, place / path)
    fill(place, locked, root)
    return locked


def _looked_at(wanted: Wanted, source: Source, path: str) -> tuple[File, Path]:
    """Return a file of a source, and where its bytes are: in the cache already, or just downloaded."""
    known = source.files[path]
    if known.sha256 and known.size is not None and (twin := _twin(File(path, known.size, known.sha256))):
        return File(path, known.size, known.sha256), twin
    key = hashlib.sha256(f"{wanted.source}\n{source.revision}\n{path}".encode()).hexdigest()
    partial = cache() / "partial" / key
    if not source.revision:  # it may have changed since
        partial.unlink(missing_ok=True)
    file = _transfer(source, path, partial, known.size)
    said = (file.size if known.size is None else known.size, known.sha256 or file.sha256)
    if said != (file.size, file.sha256):
        partial.unlink()
        raise WeightsError(
            f"{shown(wanted.source)} says that {path} has {said[0]} bytes and SHA-256 {said[1]}, and gave {file.size} "
            f"bytes with {file.sha256}: try again",
            AWAY,
        )
    return file, partial


def _asked_for(wanted: Wanted, source: Source) -> list[str]:
    """Return the paths that are wanted. Raises WeightsError where a file that is named is not there."""
    lacking = wanted.lacks(source.files)
    plain = [name for name in lacking if not set(name) & set("*?[")]
    paths = checked_paths([path for path in source.files if wanted.takes(path)], wanted.source)
    if plain or not paths:
        what = f"no {plain[0]}" if plain else "nothing that files asks for" if wanted.files else "no files"
        some = ", ".join(sorted(source.files)[:5]) or "nothing"
        raise WeightsError(f"[{wanted.name}]: {shown(wanted.source)} has {what}; it has {some}", WRONG_USE)
    if lacking:
        say(f"{wanted.name}: no file matches {', '.join(lacking)}")
    return paths


def _transfer(source: Source, path: str, partial: Path, size: int | None) -> File:
    """Read a file of a source to `partial`, behind what is there already; return what it is."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    found, done, told = hashlib.sha256(), 0, time.monotonic()
    terminal = sys.stderr.isatty()
    pause, begin, end = (0.2, "\r\033[K", "") if terminal else (_TOLD_EVERY_S, "", "\n")
    with partial.open("a+b") as file:
        file.seek(0)
        while block := file.read(BLOCK):
            found.update(block)
            done += len(block)
        for block in source.read(path, done):
            file.write(block)
            found.update(block)
            done += len(block)
            if time.monotonic() - told > pause:
                told = time.monotonic()
                whole = f" of {amount(size)}" if size else ""
                print(f"{begin}weights: {path}: {amount(done)}{whole}", end=end, file=sys.stderr, flush=True)
        file.flush()
        os.fsync(file.fileno())
    print(begin, end="", file=sys.stderr, flush=True)
    return File(path, done, found.hexdigest())


def damaged(folder: Path, lock: Lock) -> list[str]:
    """Return the files of a lock that are not in a folder as they were locked; every byte is read."""
    return [path for path, file in lock.files().items() if not _is(folder / path, file)]


def forget(folder: Path, paths: list[str]) -> None:
    """Let the next `fill` bring files again."""
    with suppress(OSError):  # a volume that is mounted to read
        for path in (LOCK, *paths):
            (folder / path).unlink(missing_ok=True)


def copy(folder: Path, lock: Lock, target: Path) -> None:
    """Put weights that are in one folder into another one; its lock comes last."""
    (target / LOCK).unlink(missing_ok=True)
    for path in lock.files():
        _linked(folder / path, target / path)
    write(target / LOCK, lock)


def _is(place: Path, file: File) -> bool:
    try:
        return place.stat().st_size == file.size and sha256_of(place) == file.sha256
    except OSError:
        return False


def _twin(file: File) -> Path | None:
    """Return the same file of another lock in the cache: a new version of weights often changes one of its files."""
    for there in cache().glob(f"sets/*/{LOCK}"):
        with suppress(WeightsError):
            for path, other in read(there).files().items():
                if other.sha256 == file.sha256 and _is(there.parent / path, file):
                    return there.parent / path
    return None


def _keep(partial: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.chmod(0o444)  # links share it
    partial.replace(target)


def _linked(source: Path, target: Path) -> None:
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
