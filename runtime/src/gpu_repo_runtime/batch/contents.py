"""Whether the files of the input are still what they were: before each part is written, at the end and at a restart."""

import hashlib
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from pyarrow import ArrowException, fs

from .exits import BadConfiguration
from .inputs import InputFile

# Of all files together: more would take minutes to read before the first row.
CHECKED_BYTES = 16 << 30
_BLOCK = 1 << 20
State = tuple[int, int, int, str]


class Checksums:
    """The SHA-256 of each file on a disk, made in a thread while the model loads; none when there is too much.

    With them a copy of the same content, which has another time, is the same input.
    """

    def __init__(self, files: list[InputFile]) -> None:
        self._files = files if sum(file.size for file in files) <= CHECKED_BYTES else []
        self._files = [file for file in self._files if _is_local(file)]
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, "checksums")
        self._sums = self._pool.map(self._sum, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)

    def __call__(self) -> dict[str, str]:
        """Return the checksums by the files' names; files that cannot be read have none."""
        found = zip(self._files, self._sums, strict=True)
        return {file.name: checksum for file, checksum in found if checksum}

    def _sum(self, file: InputFile) -> str:
        digest = hashlib.sha256()
        try:
            with open(file.path, "rb", buffering=0) as stream:
                while not self._stop.is_set() and (block := stream.read(_BLOCK)):
                    digest.update(block)
        except OSError:
            return ""
        return digest.hexdigest()


class Watch:
    """The files as they were when they were found or first read."""

    def __init__(self) -> None:
        self._seen: dict[str, State] = {}

    def begin(self, file: InputFile) -> None:
        """Note how a file is before it is read. Raises BadConfiguration when it has changed since it was found."""
        seen = _state(file)
        if seen is not None:
            self._seen[file.path] = seen
            _compare(file, (file.size, file.modified, file.inode or seen[2], seen[3]), seen)

    def check(self, file: InputFile) -> None:
        """Raise BadConfiguration when a file is not as it was."""
        seen = self._seen.get(file.path)
        now = _state(file)
        if now is None:
            raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
        _compare(file, seen or (file.size, file.modified, file.inode or now[2], now[3]), now)

    def check_all(self, files: Iterable[InputFile]) -> None:
        """Check all files, several at a time, because each takes a while in an object store."""
        files = list(files)
        if all(map(_is_local, files)) or len(files) < 2:
            for file in files:
                self.check(file)
            return
        with ThreadPoolExecutor(16) as pool:
            for _ in pool.map(self.check, files):
                pass

    def tag(self, file: InputFile) -> str:
        """Return what an object store calls this version of the content, "" for a disk."""
        return self._seen.get(file.path, (0, 0, 0, ""))[3]


_ADVICE = "rows of both would be in one result: start with another --output, or bring the old file back"


def _compare(file: InputFile, before: State, now: State) -> None:
    words = (
        "its size was {} bytes, now {}",
        "its time has changed",
        "it is another file",
        "its version was {}, now {}",
    )
    changes = [word.format(a, b) for word, a, b in zip(words, before, now, strict=True) if a != b]
    if changes:
        raise BadConfiguration(f"{file.name} has changed during the run: {', '.join(changes)}; {_ADVICE}")


def _is_local(file: InputFile) -> bool:
    return isinstance(file.filesystem, fs.LocalFileSystem)


def _state(file: InputFile) -> State | None:
    """Return (size, time in ns, inode, version), None when the file is gone. Zero and "" are what is not known."""
    info = file.filesystem.get_file_info(file.path)
    if info.type != fs.FileType.File:
        return None
    inode = os.stat(file.path).st_ino if _is_local(file) else 0
    return int(info.size or 0), int(info.mtime_ns or 0), inode, "" if _is_local(file) else version(file)


def version(file: InputFile) -> str:
    """Return the ETag of an object, "" where the store tells none."""
    try:
        with file.filesystem.open_input_file(file.path) as stream:
            found = stream.metadata() or {}
    except (OSError, ArrowException, NotImplementedError, AttributeError):
        return ""
    return next((value.decode() for key, value in found.items() if key.lower() == b"etag"), "")
