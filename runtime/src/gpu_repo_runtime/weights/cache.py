"""The cache of weights, outside of every repository: each file once, by its SHA-256, and a folder for each lock.

``blobs/SHA256`` are whole files, ``partial/`` those that are on their way, ``sets/SHA256`` the folders that models get:
hard links to blobs. What has its name is whole; a program that is killed leaves a part, which the next one takes up.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .home import in_home
from .lockfile import LOCK, File, Lock, misses, sha256_of
from .lockfile import write as write_lock
from .problems import AWAY, WRONG_USE, WeightsError
from .progress import say


def default_root() -> Path:
    """Return where weights are kept: WEIGHTS_CACHE, else gpu-repo/weights in the user's cache.

    Raises WeightsError where the user has no home folder.
    """
    if own := os.environ.get("WEIGHTS_CACHE"):
        return Path(os.path.expanduser(own)).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    cache = Path(base) if base and Path(base).is_absolute() else in_home(".cache")
    if cache is None:
        raise WeightsError(
            f"there is no place for weights: HOME is not set and user {os.getuid()} has no home folder; let "
            "WEIGHTS_CACHE name a folder for them",
            WRONG_USE,
        )
    return cache / "gpu-repo" / "weights"


class Cache:
    """See the module."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place_of(self, lock: Lock) -> Path:
        """Return the folder of a lock, whether or not it is there."""
        return self.root / "sets" / lock.digest.removeprefix("sha256:")

    def has(self, lock: Lock) -> bool:
        """Tell whether the folder of a lock is whole."""
        place = self.place_of(lock)
        return place.is_dir() and not misses(place, lock)

    def blob(self, sha256: str) -> Path:
        """Return the place of a file."""
        return self.root / "blobs" / sha256

    def partial(self, key: str) -> Path:
        """Return the place of a file on its way; key: what it is known by, such as its SHA-256."""
        return self.root / "partial" / hashlib.sha256(key.encode()).hexdigest()

    def make(self) -> None:
        """Make the folders. Raises WeightsError."""
        try:
            for name in ("blobs", "partial", "sets", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WeightsError(
                f"the cache of weights {self.root} cannot be made: {error.strerror}; WEIGHTS_CACHE names another place",
                AWAY,
            ) from None

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Wait until nobody else is at work on the same. On a disk without locks nobody is kept away."""
        with (self.root / "locks" / hashlib.sha256(what.encode()).hexdigest()).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"another program fetches {what.rpartition('|')[2]}: waiting for it")
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:
                pass
            yield

    def keep(self, partial: Path, file: File) -> None:
        """Give a file that was held to its SHA-256 its name."""
        with partial.open("rb") as content:
            os.fsync(content.fileno())
        partial.chmod(0o444)  # a set shares it with others
        partial.replace(self.blob(file.sha256))

    def holds(self, file: File) -> bool:
        """Tell whether a file is there."""
        try:
            return self.blob(file.sha256).stat().st_size == file.size
        except OSError:
            return False

    def assemble(self, lock: Lock) -> Path:
        """Make the folder of a lock out of blobs that are all there, and return it. Call it alone."""
        place = self.place_of(lock)
        temporary = place.with_name(f".{place.name}")
        shutil.rmtree(temporary, ignore_errors=True)  # of one that was killed
        for path, file in lock.files().items():
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            linked(self.blob(file.sha256), target)
        temporary.mkdir(exist_ok=True)
        write_lock(temporary / LOCK, lock)
        for folder in (temporary, *(path for path in temporary.rglob("*") if path.is_dir())):
            folder.chmod(0o755)  # an image keeps the modes, and its user is another one
        if place.is_dir():
            shutil.rmtree(place)
        temporary.replace(place)
        return place

    def damaged(self, lock: Lock) -> list[str]:
        """Return the files of a lock whose bytes are others by now, or gone, and forget them."""
        wrong = []
        for path, file in lock.files().items():
            blob = self.blob(file.sha256)
            if not blob.is_file() or sha256_of(blob) != file.sha256:
                wrong.append(path)
                blob.unlink(missing_ok=True)
        if wrong:
            shutil.rmtree(self.place_of(lock), ignore_errors=True)
        return wrong


def linked(source: Path, target: Path) -> None:
    """Let a file be at a second place too, by a link where the disk can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
