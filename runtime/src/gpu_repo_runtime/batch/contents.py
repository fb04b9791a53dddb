"""Whether the files of the input are still what they were: before each part is written, at the end and at a restart."""

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from pyarrow import ArrowException, fs

from .exits import BadConfiguration, refusal
from .inputs import InputFile

# Of all files together: more would take minutes to read before the first row.
CHECKED_BYTES = 16 << 30
_BLOCK = 1 << 20
# An object of this size or less is fetched by one request, at the moment at which its version is looked at.
FETCHED_BYTES = 1 << 20
_SECOND = 1_000_000_000
# How often a file that changes while its content is compared is compared again.
_LOOKS = 10
# Size, time, inode, version in an object store, and when a disk has last written anything of it.
State = tuple[int, int, int, str, int]


class Checksums:
    """The SHA-256 of each file on a disk, made in a thread while the model loads; none when there is too much.

    With them a copy of the same content, which has another time, is the same input.
    """

    def __init__(self, files: list[InputFile]) -> None:
        self._files = files if sum(file.size for file in files) <= CHECKED_BYTES else []
        self._files = [file for file in self._files if file.is_local]
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

    def __init__(self, checksums: Mapping[str, str] = MappingProxyType({})) -> None:
        """checksums: those of the files when the job began, by their names, as far as they are known."""
        self._seen: dict[str, State] = {}
        self._checksums = checksums

    def begin(self, file: InputFile) -> InputFile:
        """Note how a file is before it is read, and return it; with its content if it is a small one of a store.

        Raises BadConfiguration when it has changed since it was found.
        """
        seen, content = _looked_at(file, fetched=not file.is_local and file.size <= FETCHED_BYTES)
        if seen is not None:
            self._seen[file.path] = seen
            self._compare(file, _as_found(file, seen), seen)
        return replace(file, content=content) if content is not None else file

    def check(self, file: InputFile) -> None:
        """Raise BadConfiguration when a file is not as it was."""
        seen = self._seen.get(file.path)
        now, _ = _looked_at(file)
        if now is None:
            raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
        self._compare(file, seen or _as_found(file, now), now)

    def _compare(self, file: InputFile, before: State, now: State) -> None:
        if before == now:
            return
        if (same := self._copied(file, before, now)) is not None:
            self._seen[file.path] = same
            return
        if before[:4] == now[:4] and not self._checksums.get(file.name):
            # Its rights or its name, as far as anybody can know.
            self._seen[file.path] = now
            return
        words = (
            "its size was {} bytes, now {}",
            "its time has changed",
            "it is another file",
            "its version was {}, now {}",
            "it was written again",
        )
        changes = [word.format(a, b) for word, a, b in zip(words, before, now, strict=True) if a != b]
        raise BadConfiguration(f"{file.name} has changed during the run: {', '.join(changes)}; {_ADVICE}")

    def _copied(self, file: InputFile, before: State, now: State) -> State | None:
        """Return the state of a file on a disk that has another time or inode alone, as one that is copied once more.

        None for another content, and for a file that does not come to rest.
        """
        known = self._checksums.get(file.name)
        if not known or not file.is_local:
            return None
        for _ in range(_LOOKS):
            if before[0] != now[0]:
                return None
            try:
                with open(file.path, "rb", buffering=0) as stream:
                    if hashlib.file_digest(stream, "sha256").hexdigest() != known:
                        return None
            except OSError:
                return None
            after = _on_disk(file)
            if after is None or after == now:
                return after
            now = after  # copied yet again, or its time set, while it was read
        return None

    def check_all(self, files: Iterable[InputFile]) -> None:
        """Check all files, several at a time, because each takes a while in an object store."""
        files = list(files)
        if all(file.is_local for file in files) or len(files) < 2:
            for file in files:
                self.check(file)
            return
        with ThreadPoolExecutor(16) as pool:
            for _ in pool.map(self.check, files):
                pass

    def tag(self, file: InputFile) -> str:
        """Return what an object store calls this version of the content, "" for a disk."""
        return self._seen.get(file.path, (0, 0, 0, "", 0))[3]


_ADVICE = "rows of both would be in one result: start with another --output, or bring the old file back"


def _as_found(file: InputFile, like: State) -> State:
    """Return the state of a file when it was found; what was not known then is as in `like`."""
    same_time = not file.is_local and file.modified // _SECOND == like[1] // _SECOND
    return file.size, like[1] if same_time else file.modified, file.inode or like[2], like[3], file.changed or like[4]


def _looked_at(file: InputFile, fetched: bool = False) -> tuple[State | None, bytes | None]:
    """Return how a file is, None when the file is gone, and its content if it is to be fetched.

    Zero and "" are what is not known. A store that tells all of that when an object is opened is asked once.
    """
    if file.is_local:
        return _on_disk(file), None
    try:
        with file.filesystem.open_input_file(file.path) as stream:
            told = _told(stream)
            content = stream.read() if fetched else None
            modified = _time(told["last-modified"])
            if told["etag"] and modified:
                return (stream.size(), modified, 0, told["etag"], 0), content
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise refusal(file.name, error) from error
    info = file.filesystem.get_file_info(file.path)
    if info.type != fs.FileType.File:
        return None, None
    return (int(info.size or 0), int(info.mtime_ns or 0), 0, told["etag"], 0), content


def _on_disk(file: InputFile) -> State | None:
    info = file.filesystem.get_file_info(file.path)
    if info.type != fs.FileType.File:
        return None
    try:
        disk = os.stat(file.path)
    except FileNotFoundError:  # deleted between the two looks
        return None
    return int(info.size or 0), int(info.mtime_ns or 0), disk.st_ino, "", disk.st_ctime_ns


def _told(stream: Any) -> dict[str, str]:
    """Return what a store tells of an object, "" for what it does not."""
    try:
        found = stream.metadata() or {}
    except (OSError, ArrowException, NotImplementedError, AttributeError):
        found = {}
    return {"etag": "", "last-modified": ""} | {_text(key).lower(): _text(value) for key, value in found.items()}


def _time(told: str) -> int:
    """Return the time that a store tells, in whole seconds as ns; 0 where that is not known."""
    try:
        return int(datetime.fromisoformat(told).timestamp()) * _SECOND
    except ValueError:
        return 0


def _text(value: str | bytes) -> str:
    """Return a text that older versions of pyarrow give as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def version(file: InputFile) -> str:
    """Return the ETag of an object, "" where the store tells none, or where it is gone."""
    state, _ = _looked_at(file)
    return state[3] if state else ""
