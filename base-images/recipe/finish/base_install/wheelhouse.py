"""The wheels that builds before this one downloaded, by hash, in the cache of the build.

What is here is not asked of the package index again: a lock that was installed once is installed without a network.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.tags import sys_tags

from .lock import Pin


class Wheelhouse:
    """A folder of wheels. It may be lost, cut or written by others at any time: each wheel taken is checked."""

    def __init__(self, cache: Path) -> None:
        # The cache may serve several images. Of the same hashes, another Python or architecture takes another file.
        self.folder = cache / "wheels" / str(next(sys_tags()))
        self.usable = os.path.ismount(cache)

    def take(self, pin: Pin, goal: Path) -> bool:
        """Copy the wheel of a pin into a folder; tell whether it was here."""
        for digest in sorted(value.removeprefix("--hash=sha256:") for value in pin.hashes) if self.usable else ():
            for wheel in (self.folder / digest).glob("*.whl"):
                copy = goal / wheel.name
                with contextlib.suppress(OSError):
                    shutil.copyfile(wheel, copy)
                    if sha256(copy) == digest:
                        return True
                    shutil.rmtree(wheel.parent)
                copy.unlink(missing_ok=True)
        return False

    def keep(self, wheels: Iterable[Path]) -> None:
        """Add wheels. One that cannot be kept is downloaded again by the next build."""
        for wheel in wheels if self.usable else ():
            place = self.folder / sha256(wheel)
            if place.exists():
                continue
            with contextlib.suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as scratch:
                    shutil.copyfile(wheel, Path(scratch, wheel.name))
                    os.rename(scratch, place)  # complete, or not there


def sha256(path: Path) -> str:
    """Return the hash of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
