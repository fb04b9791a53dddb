"""Whether the files of the input are still what they were: before each part is written, and at the end."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyarrow import ArrowException, fs

from .exits import BadConfiguration, refusal
from .parts import InputFile

_READERS = 16
_ADVICE = "the result would mix both: start with another --output, or restore the old file"


class State(NamedTuple):
    """A file as it is: bytes, and on a disk the time of its last change in ns, in a store its version."""

    size: int
    modified: int = 0
    version: str = ""


class Watch:
    """The files as they were when they were found or first read."""

    def __init__(self) -> None:
        self._seen: dict[str, State] = {}

    def begin(self, file: InputFile) -> None:
        """Note how a file is before it is read. Raises BadConfiguration when it has changed since it was found."""
        state = _state(file)
        if state is not None:
            found = State(file.size, file.modified if state.modified else 0, state.version)
            _compare(file, found, state)
            self._seen[file.path] = state

    def check(self, files: Iterable[InputFile]) -> None:
        """Raise BadConfiguration when one of the files that were read is not as it was."""
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(self._check, [file for file in files if file.path in self._seen]))

    def versions(self, files: Iterable[InputFile]) -> dict[str, str]:
        """Return what an object store calls this version of the files; a disk has none."""
        found = {file.name: self._seen[file.path].version for file in files if file.path in self._seen}
        return {name: version for name, version in found.items() if version}

    def _check(self, file: InputFile) -> None:
        now = _state(file)
        if now is None:
            raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
        _compare(file, self._seen[file.path], now)


def _compare(file: InputFile, before: State, now: State) -> None:
    words = ("its size was {} bytes, now {}", "its time has changed", "its version was {}, now {}")
    changes = [word.format(a, b) for word, a, b in zip(words, before, now, strict=True) if a != b]
    if changes:
        raise BadConfiguration(f"{file.name} has changed during the run: {', '.join(changes)}; {_ADVICE}")


def _state(file: InputFile) -> State | None:
    """Return how a file is, None when it is gone. A store that reports versions gets one request."""
    if not file.is_local:
        try:
            with file.filesystem.open_input_file(file.path) as stream:
                found = {_text(key).lower(): _text(value) for key, value in (stream.metadata() or {}).items()}
                if version := found.get("etag"):
                    return State(stream.size(), version=version)
        except FileNotFoundError:
            return None
        except (ArrowException, NotImplementedError, AttributeError):
            pass
        except OSError as error:
            raise refusal(file.name, error) from error
    info = file.filesystem.get_file_info(file.path)
    return State(int(info.size or 0), int(info.mtime_ns or 0)) if info.type == fs.FileType.File else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
