"""Which files are the input, on any filesystem that pyarrow or fsspec knows, and whether they stay what they were."""

import fnmatch
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pyarrow import ArrowException, fs

from .exits import BadConfiguration, refusal
from .messages import masked, say
from .parts import COMPRESSED, PLAIN, READERS, Dialect, InputFile

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
}
# The plan of a result of this job.
PLAN = "_plan.json"
_WILDCARD = re.compile(r"[*?\[]")
_ADVICE = "the result would mix both: start with another --output, or restore the old file"
# A file as it is: its size, and on a disk the time of its last change in ns, in a store its version.
State = dict[str, int | str]


def open_filesystem(location: str, for_writing: bool = False) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of a local path or a URI, for example s3://bucket/key, and the path in it."""
    if "://" not in location:
        return fs.LocalFileSystem(), Path(location).absolute().as_posix()
    scheme = location.partition("://")[0]
    if for_writing and scheme == "s3":
        # One request for a small object, and not three.
        location += f"{'&' if '?' in location else '?'}allow_delayed_open=true"
    try:
        filesystem, path = fs.FileSystem.from_uri(location)
        return filesystem, path
    except (ArrowException, ValueError):
        pass
    try:
        from fsspec.core import url_to_fs

        found, path = url_to_fs(location)
    except (ImportError, ValueError) as error:
        hint = f"pyarrow does not know {scheme}://; add fsspec and its package for {scheme} to the dependencies"
        raise BadConfiguration(f"{location} cannot be opened: {hint} ({error})") from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def find_files(
    locations: Sequence[str], form: str | None = None, output: str | None = None, dialect: Dialect = PLAIN
) -> list[InputFile]:
    """Return the files of all locations (paths, folders, wildcards, URIs), sorted by name, each path once.

    form: parquet, jsonl, csv, tsv or txt for all files; None takes each file's from its name. output: the folder that
    is written, whose result is not read. Raises BadConfiguration where a location has nothing to read.
    """
    found = [file for location in locations for file in _of_location(location, form, output, dialect)]
    once = {real_path(file.filesystem, file.path): file for file in reversed(found)}
    links = {path: os.path.realpath(path) for path, file in once.items() if file.is_local}
    once = {path: file for path, file in once.items() if links.get(path, path) not in once.keys() - {path}}
    if more := len(found) - len(once):
        say(f"{more} more paths lead to files that are read already: each file is read once")
    count = Counter(file.name for file in once.values())
    clear = [replace(file, name=masked(file.path)) if count[file.name] > 1 else file for file in once.values()]
    return sorted(clear, key=lambda file: file.name)


def real_path(filesystem: fs.FileSystem, path: str) -> str:
    """Return the path behind links to folders. A link to a file outside stays: DVC and git-annex link by content."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        return path
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _of_location(location: str, form: str | None, output: str | None, dialect: Dialect) -> list[InputFile]:
    """Return the files of one location. Raises BadConfiguration when there are none: half an input is not the input."""
    filesystem, base, infos = _listed(location)
    found = []
    unread: Counter[str] = Counter()
    for info in _without_results(infos, base, output):
        own = form or format_of(info.path)
        if own is None:
            unread[PurePosixPath(info.path).suffix] += 1
            continue
        if info.type != fs.FileType.File:
            raise BadConfiguration(f"the input {info.path} is not a file, but a pipe or a broken link: remove it")
        name = str(PurePosixPath(info.path).relative_to(base))
        size, modified = int(info.size or 0), int(info.mtime_ns or 0)
        found.append(InputFile(name, info.path, size, modified, own, filesystem, dialect))
    if not found:
        what = f"{unread.total()} files there, none named {', '.join(FORMATS)}; --format sets their format"
        raise BadConfiguration(f"no input in {location}: {what if unread else 'no files there'}")
    if unread[".json"]:
        say(f"{unread['.json']} files named .json are not read: --format jsonl if each of their lines is an object")
    return found


def format_of(path: str) -> str | None:
    """Return the format that the name of the file tells, None when it tells none."""
    suffixes = PurePosixPath(path.lower()).suffixes
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def _listed(location: str) -> tuple[fs.FileSystem, str, list[fs.FileInfo]]:
    """Return the filesystem, the folder that names are relative to and the files of one location."""
    query = ""
    if "://" in location and "=" in location.rpartition("?")[2]:
        # The options of a URI, such as ?endpoint_override=...; a path has none.
        location, mark, options = location.rpartition("?")
        query = mark + options
    wildcard = _WILDCARD.search(location)
    if wildcard and ("://" in location or not Path(location).exists()):
        head = location[: wildcard.start()].rpartition("/")[0]
        filesystem, base = open_filesystem((head or ("/" if location.startswith("/") else ".")) + query)
        return filesystem, base, _matching(filesystem, base, location[len(head) :].lstrip("/"))
    filesystem, path = open_filesystem(location + query)
    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise BadConfiguration(f"the input {location} does not exist")
    if info.type == fs.FileType.Directory:
        return filesystem, path, _below(filesystem, path)
    return filesystem, str(PurePosixPath(path).parent), [info]


def _matching(filesystem: fs.FileSystem, base: str, pattern: str) -> list[fs.FileInfo]:
    """Return the files that a pattern matches, and those below folders that it matches, as a shell would have it."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        words = pattern.split("/")
        below = _below(filesystem, base)
        return [one for one in below if _matches(PurePosixPath(one.path).relative_to(base).parts, words)]
    paths = glob.glob(f"{glob.escape(base.rstrip('/'))}/{pattern}", recursive=True)
    found = _not_hidden(filesystem.get_file_info(paths), base)
    folders = [] if "**" in pattern else [info.path for info in found if info.type == fs.FileType.Directory]
    return [*found, *(info for folder in folders for info in _below(filesystem, folder))]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not pattern
    if pattern[0] == "**":
        return any(_matches(parts[n:], pattern[1:] or ["*"]) for n in range(len(parts)))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _below(filesystem: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """Return the files under a folder, without hidden ones; of the folders of results only their plans."""
    try:
        is_local = isinstance(filesystem, fs.LocalFileSystem)
        selected = _walk(folder) if is_local else fs.FileSelector(folder, recursive=True)
        return _not_hidden(filesystem.get_file_info(selected), folder)
    except PermissionError as error:
        raise BadConfiguration(f"the input {folder} may not be read: {error}") from None
    except FileNotFoundError:
        raise BadConfiguration(f"the input does not exist: there is no folder {folder}") from None


def _not_hidden(infos: list[fs.FileInfo], folder: str) -> list[fs.FileInfo]:
    """Return what neither a dot nor, as jobs mark files, an underscore hides; plans of results stay."""
    depth = len(PurePosixPath(folder).parts)
    return [
        info
        for info in infos
        if not any(
            name.startswith((".", "_")) and name not in ("..", PLAN) for name in PurePosixPath(info.path).parts[depth:]
        )
    ]


def _without_results(infos: list[fs.FileInfo], base: str, output: str | None) -> list[fs.FileInfo]:
    """Return the files of which none is in the result of this run, or of another one below the folder.

    Raises BadConfiguration when the input is in the output.
    """
    plans = {str(PurePosixPath(info.path).parent) for info in infos if info.base_name == PLAN} - {base}
    if plans:
        say(
            f"{len(plans)} results of this job below {base} are not read, for example {min(plans)}; "
            "to read one, name it in --input"
        )
    results = [f"{one}/data/" for one in plans]
    own = open_filesystem(output)[1].rstrip("/") if output else ""
    if f"{base}/".startswith(f"{own}/data/"):
        raise BadConfiguration(f"the input {base} is in the output {output}: take another --output")
    files = [info for info in infos if info.type != fs.FileType.Directory and info.base_name != PLAN]
    return [info for info in files if not info.path.startswith((*results, f"{own}/data/"))]


def _walk(folder: str) -> list[str]:
    """Return the paths of all files under a folder, those behind links too."""

    def fail(error: OSError) -> None:
        raise error

    walk = os.walk(folder, onerror=fail, followlinks=True)
    return [f"{path.rstrip('/')}/{name}" for path, _, files in walk for name in files]


class Watch:
    """The files as they were when they were found, and in a store when they were first looked at."""

    def __init__(self) -> None:
        self._seen: dict[str, State] = {}

    def check(self, files: Iterable[InputFile]) -> None:
        """Raise BadConfiguration when one of the files has changed."""
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(self._check, files))

    def versions(self, files: Iterable[InputFile]) -> dict[str, str]:
        """Return what an object store calls this version of the files; a disk has none."""
        seen = {file.name: self._seen.get(file.path, {}) for file in files}
        return {name: str(state["version"]) for name, state in seen.items() if "version" in state}

    def _check(self, file: InputFile) -> None:
        now = _state(file)
        if now is None:
            raise BadConfiguration(f"{file.name} was there at the start and is gone now; {_ADVICE}")
        found: State = {"size": file.size, "time": file.modified}
        before = self._seen.setdefault(file.path, {key: found.get(key, one) for key, one in now.items()})
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
