"""Whether the files of the input are still what they were: before each part is written, and at the end."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from pyarrow import ArrowException, fs

from .exits import BadConfiguration, refusal
from .inputs import InputFile

_SECOND = 1_000_000_000
_READERS = 16
# Size, time of the last change in ns, and the version in an object store.
State = tuple[int, int, str]


class Watch:
    """The files as they were when they were found or first read."""

    def __init__(self) -> None:
        self._seen: dict[str, State] = {}

    def begin(self, file: InputFile) -> None:
        """Note how a file is before it is read. Raises BadConfiguration when it has changed since it was found."""
        state = _state(file)
        if state is not None:
            # A list of objects has no versions, and times in whole seconds.
            same_time = not file.is_local and file.modified // _SECOND == state[1] // _SECOND
            _compare(file, (file.size, state[1] if same_time else file.modified, state[2]), state)
            self._seen[file.path] = state

    def check(self, files: Iterable[InputFile]) -> None:
        """Raise BadConfiguration when one of the files that were read is not as it was."""
        seen = [(file, self._seen[file.path]) for file in files if file.path in self._seen]
        if len(seen) < 2:
            for one in seen:
                _check(one)
            return
        with ThreadPoolExecutor(_READERS) as pool:
            for _ in pool.map(_check, seen):
                pass

    def versions(self, files: Iterable[InputFile]) -> dict[str, str]:
        """Return what an object store calls this version of the files; a disk has none."""
        found = {file.name: self._seen[file.path][2] for file in files if file.path in self._seen}
        return {name: version for name, version in found.items() if version}


def _check(seen: tuple[InputFile, State]) -> None:
    file, before = seen
    now = _state(file)
    if now is None:
        raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
    _compare(file, before, now)


def _compare(file: InputFile, before: State, now: State) -> None:
    words = ("its size was {} bytes, now {}", "its time has changed", "its version was {}, now {}")
    changes = [word.format(a, b) for word, a, b in zip(words, before, now, strict=True) if a != b]
    if changes:
        raise BadConfiguration(f"{file.name} has changed during the run: {', '.join(changes)}; {_ADVICE}")


_ADVICE = "the result would mix both: start with another --output, or bring the old file back"


def _state(file: InputFile) -> State | None:
    """Return how a file is, None when it is gone. A store that knows the version is asked once."""
    tag = ""
    if not file.is_local:
        try:
            with file.filesystem.open_input_file(file.path) as stream:
                found = _metadata(stream)
                tag = found["etag"]
                modified = _time(found["last-modified"])
                if found["etag"] and modified:
                    return stream.size(), modified, found["etag"]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(file.name, error) from error
    info = file.filesystem.get_file_info(file.path)
    if info.type != fs.FileType.File:
        return None
    return int(info.size or 0), int(info.mtime_ns or 0), tag


def _metadata(stream: Any) -> dict[str, str]:
    try:
        found = stream.metadata() or {}
    except (OSError, ArrowException, NotImplementedError, AttributeError):
        found = {}
    texts = {_text(key).lower(): _text(value) for key, value in found.items()}
    return {"etag": "", "last-modified": ""} | texts


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _time(text: str) -> int:
    """Return the time that a store reports, in whole seconds as ns; 0 where it is unknown."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) * _SECOND
    except ValueError:
        return 0
