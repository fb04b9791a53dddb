"""Whether the files of the input are still what they were: before each part is written, and at the end."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyarrow import ArrowException, fs

from .exits import BadConfiguration, refusal
from .parts import READERS, InputFile

_ADVICE = "the result would mix both: start with another --output, or restore the old file"
# A file as it is: its size, and on a disk the time of its last change in ns, in a store its version.
State = dict[str, int | str]


class Watch:
    """The files as they were when they were found or first read."""

    def __init__(self) -> None:
        self._seen: dict[str, State] = {}

    def begin(self, file: InputFile) -> None:
        """Note how a file is before it is read. Raises BadConfiguration when it has changed since it was found."""
        if state := _state(file):
            found: State = {"size": file.size, "time": file.modified}
            _compare(file, {key: found.get(key, value) for key, value in state.items()}, state)
            self._seen[file.path] = state

    def check(self, files: Iterable[InputFile]) -> None:
        """Raise BadConfiguration when one of the files that were read is not as it was."""
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(self._check, [file for file in files if file.path in self._seen]))

    def versions(self, files: Iterable[InputFile]) -> dict[str, str]:
        """Return what an object store calls this version of the files; a disk has none."""
        seen = {file.name: self._seen.get(file.path, {}) for file in files}
        return {name: str(state["version"]) for name, state in seen.items() if "version" in state}

    def _check(self, file: InputFile) -> None:
        now = _state(file)
        if now is None:
            raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
        _compare(file, self._seen[file.path], now)


def _compare(file: InputFile, before: State, now: State) -> None:
    changes = [f"its {key} was {one}, now {now.get(key)}" for key, one in before.items() if now.get(key) != one]
    if changes:
        raise BadConfiguration(f"{file.name} has changed during the run: {', '.join(changes)}; {_ADVICE}")


def _state(file: InputFile) -> State | None:
    """Return how a file is, None when it is gone. A store that reports versions gets one request."""
    if not file.is_local:
        try:
            with file.filesystem.open_input_file(file.path) as stream:
                found = {_text(key).lower(): _text(value) for key, value in (stream.metadata() or {}).items()}
                if version := found.get("etag"):
                    return {"size": stream.size(), "version": version}
        except FileNotFoundError:
            return None
        except (ArrowException, NotImplementedError, AttributeError):
            pass
        except OSError as error:
            raise refusal(file.name, error) from error
    info = file.filesystem.get_file_info(file.path)
    return {"size": info.size or 0, "time": info.mtime_ns or 0} if info.type == fs.FileType.File else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
