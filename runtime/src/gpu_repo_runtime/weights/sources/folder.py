"""Files in a folder, of the repository or elsewhere on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..problems import AWAY, WeightsError
from .web import BLOCK


class Disk:
    """A folder; `place` is absolute. What lies in it as a link counts as what the link leads to."""

    revision = ""

    def __init__(self, place: Path, asked: str) -> None:
        if not place.is_dir():
            raise WeightsError(f"there is no folder {asked}" + (f" ({place})" if str(place) != asked else ""), AWAY)
        self.place = place

    def listing(self) -> dict[str, int | None]:
        """Return the files by their paths, with their sizes; hidden ones are none, nor are locks of weights."""
        found: dict[str, int | None] = {}
        for folder, below, names in os.walk(self.place, onerror=_unreadable):
            below[:] = [name for name in below if not name.startswith(".")]
            for path in (Path(folder, name) for name in names + below if not name.startswith(".")):
                if path.is_file():
                    found[path.relative_to(self.place).as_posix()] = path.stat().st_size
                elif path.is_symlink():
                    raise WeightsError(f"{path} is a link to a folder or to nothing: put the files in its place")
        return found

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        try:
            with (self.place / path).open("rb") as file:
                file.seek(start)
                while block := file.read(BLOCK):
                    yield block
        except OSError as error:
            raise WeightsError(f"{self.place / path} cannot be read: {error.strerror}", AWAY) from None


def _unreadable(error: OSError) -> None:
    raise WeightsError(f"{error.filename} cannot be read: {error.strerror}", AWAY) from None
