"""Bring files from their sources into the cache, held to their SHA-256."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from .cache import Cache
from .lockfile import LOCK, File, Lock, Weights, checked_paths, parsed
from .problems import AWAY, WRONG_USE, Interrupted, WeightsError
from .progress import Progress, amount, say
from .sources import Source, open_source
from .sources.web import BLOCK
from .wanted import Wanted, check_secret, shown

PAUSES_S = (1, 5, 15)


def fetch(lock: Lock, cache: Cache, root: Path) -> Path:
    """Return the folder with all files of a lock; what is not in the cache is fetched. Raises WeightsError."""
    if cache.has(lock):
        return cache.place_of(lock)
    cache.make()
    with cache.alone(f"{lock.digest}|weights"):
        if cache.has(lock):
            return cache.place_of(lock)
        missing = sum(file.size for file in {f.sha256: f for f in lock.files().values() if not cache.holds(f)}.values())
        progress = Progress(missing)
        try:
            for one in lock.weights:
                _bring(one, cache, root, progress)
        finally:
            progress.close()
        if missing:
            say(f"fetched {amount(missing)} into {cache.root}")
        return cache.assemble(lock)


def _bring(weights: Weights, cache: Cache, root: Path, progress: Progress) -> None:
    missing = [file for file in weights.files if not cache.holds(file)]
    if not missing:
        return
    source = _set_of(open_source(weights.source, weights.revision, tuple(f.path for f in weights.files), root), weights)
    for file in missing:
        with cache.alone(f"{file.sha256}|{file.path}"):
            if cache.holds(file):
                progress.add(file.size)
                continue
            progress.file(f"{weights.name}/{file.path}")
            where = f"{file.path} of {weights.source}"
            partial = cache.partial(file.sha256)
            for fresh in (False, True):
                begun = partial.exists() and partial.stat().st_size > 0
                size, sha256 = transfer(source, file.path, partial, progress, file.size)
                if (size, sha256) == (file.size, file.sha256):
                    break
                partial.unlink()
                progress.add(-size)
                if fresh or not begun:  # nothing of an earlier try is in it
                    raise WeightsError(
                        f"{where} has other bytes than weights.lock says: {size} bytes, sha256 {sha256}, "
                        f"not {file.size} bytes, sha256 {file.sha256}; if that is meant, run scripts/weights lock"
                    )
            cache.keep(partial, file)


def transfer(source: Source, path: str, partial: Path, progress: Progress, most: int | None = None) -> tuple[int, str]:
    """Bring a file of a source to `partial`, behind what is there already; return its size and SHA-256.

    most: no more bytes than this and a few are taken. What breaks off is taken up again, a few times as long as nothing
    comes. Raises WeightsError.
    """
    found = hashlib.sha256()
    size = 0
    with partial.open("a+b") as file:
        file.seek(0)
        while block := file.read(BLOCK):
            found.update(block)
            size += len(block)
        progress.add(size)
        silent = 0
        while True:
            before = size
            try:
                for block in source.read(path, size):
                    file.write(block)
                    found.update(block)
                    size += len(block)
                    progress.add(len(block))
                    if most is not None and size > most:
                        break
                return size, found.hexdigest()
            except Interrupted as error:
                silent = 0 if size > before else silent + error.tries
                if silent > len(PAUSES_S):
                    kept = "; what has come is kept: the same command goes on with it" if size else ""
                    raise WeightsError(f"{error}{kept}", AWAY) from None
                say(f"{error}: " + (f"going on at {amount(size)}" if size else "once more"))
                time.sleep(PAUSES_S[max(0, silent - 1)])
            except OSError as error:
                raise WeightsError(f"{partial} cannot be written: {error.strerror}", AWAY) from None


def lock(wanted: list[Wanted], cache: Cache, root: Path) -> Lock:
    """Return what the sources hold now of all that is wanted, every byte of it looked at. Raises WeightsError."""
    cache.make()
    return Lock(tuple(_locked(one, cache, root) for one in wanted))


def _locked(wanted: Wanted, cache: Cache, root: Path) -> Weights:
    check_secret(wanted)
    source = open_source(wanted.source, wanted.revision, wanted.files, root)
    listed = patiently(source.listing)
    if wanted.revision and not source.revision:
        raise WeightsError(f"[{wanted.name}]: {shown(wanted.source)} has no revisions: leave revision out", WRONG_USE)
    source = _part_of(source, listed, wanted)
    listed = source.listing()
    paths = _asked_for(wanted, listed)
    sums: dict[str, str] = getattr(source, "sums", {})  # of a source that says them itself
    progress = Progress(sum(listed[path] or 0 for path in paths))
    files = []
    try:
        for path in paths:
            progress.file(f"{wanted.name}/{path}")
            key = f"{wanted.source}\n{source.revision}\n{path}"
            with cache.alone(f"{key}|{path}"):
                partial = cache.partial(key)
                if not source.revision:  # what lies there may have changed since
                    partial.unlink(missing_ok=True)
                size, sha256 = transfer(source, path, partial, progress)
                if (said := listed[path]) is not None and size != said:
                    partial.unlink()
                    raise WeightsError(
                        f"{wanted.source} says that {path} has {said} bytes, and gave {size}: try again", AWAY
                    )
                if sums.get(path, sha256) != sha256:
                    partial.unlink()
                    raise WeightsError(
                        f"{wanted.source} says that {path} has the SHA-256 {sums[path]}, and gave {sha256}: try again",
                        AWAY,
                    )
                files.append(File(path, size, sha256))
                cache.keep(partial, files[-1])
    finally:
        progress.close()
    return Weights(wanted.name, wanted.source, source.revision or wanted.revision, tuple(files))


def _asked_for(wanted: Wanted, listed: dict[str, int | None]) -> list[str]:
    """Return the paths that are wanted. Raises WeightsError where a file that is named is not there."""
    some = ", ".join(sorted(listed)[:5]) or "nothing"
    lacking = wanted.lacks(listed)
    plain = [name for name in lacking if not set(name) & set("*?[")]
    paths = checked_paths([path for path in listed if wanted.takes(path)], wanted.source)
    if plain or not paths:
        what = f"no {plain[0]}" if plain else "nothing that files asks for" if wanted.files else "no files"
        raise WeightsError(f"[{wanted.name}]: {shown(wanted.source)} holds {what}; it holds {some}", WRONG_USE)
    if lacking:
        say(f"{wanted.name}: nothing there is {', '.join(lacking)}")
    return paths


T = TypeVar("T")


def patiently(listing: Callable[[], T]) -> T:
    """Return what a source that may be busy says. Raises WeightsError."""
    failed = 0
    while True:
        try:
            return listing()
        except Interrupted as error:
            failed += error.tries
            if failed > len(PAUSES_S):
                raise WeightsError(str(error), AWAY) from None
            say(f"{error}: once more in {PAUSES_S[failed - 1]} s")
            time.sleep(PAUSES_S[failed - 1])


class _Part:
    """One name of weights that were pushed, or left by a training: there is a folder for each, and their lock."""

    def __init__(self, source: Source, listed: dict[str, int | None], wanted: Wanted, lock: Lock) -> None:
        names = sorted({path.partition("/")[0] for path in listed if "/" in path})
        if wanted.name not in names and len(names) != 1:
            raise WeightsError(
                f"[{wanted.name}]: {wanted.source} holds the weights {', '.join(names)}: name them as one of these",
                WRONG_USE,
            )
        self._prefix = f"{wanted.name if wanted.name in names else names[0]}/"
        self._source, self.revision = source, source.revision
        below = {path: size for path, size in listed.items() if path.startswith(self._prefix)}
        self._listed = {path.removeprefix(self._prefix): size for path, size in below.items()}
        said = lock.files().items()
        self.sums = {path.removeprefix(self._prefix): file.sha256 for path, file in said if path in below}

    def listing(self) -> dict[str, int | None]:
        """Return the files below the folder of that name."""
        return self._listed

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        return self._source.read(self._prefix + path, start)


def _set_of(source: Source, weights: Weights) -> Source:
    """Return the source, or its part that was locked: the same paths may lie below a folder of that name."""
    if weights.source.startswith(("https://", "http://", "hf://", "pypi:")):
        return source
    return _part_of(source, patiently(source.listing), Wanted(weights.name, weights.source))


def _part_of(source: Source, listed: dict[str, int | None], wanted: Wanted) -> Source:
    """Return the part of a source that has a lock of ours, else the source: others have a file of that name too."""
    if LOCK not in listed:
        return source
    content = patiently(lambda: b"".join(source.read(LOCK, 0)))
    try:
        lock = parsed(content.decode(), LOCK)
    except (UnicodeDecodeError, WeightsError):
        return source
    return _Part(source, listed, wanted, lock)
