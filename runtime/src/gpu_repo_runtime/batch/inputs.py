"""Which files are the input: files, folders and wildcards on any filesystem that pyarrow or fsspec knows."""

import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from pyarrow import ArrowException, fs

from .addresses import behind_password, masked
from .exits import BadConfiguration
from .messages import say
from .wildcards import as_regex, folders_of, say_folders

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
}
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
# What Hive and Spark call a folder of rows without a value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# The plan of a result of this job.
PLAN = "_plan.json"
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Dialect:
    """How text files are written: the character between the fields of CSV, and the encoding; "" is the usual one.

    header: the names of the columns of CSV files without a header. nulls: words that stand for no value.
    """

    delimiter: str = ""
    encoding: str = ""
    header: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()


PLAIN = Dialect()


@dataclass(frozen=True)
class InputFile:
    """A file of the input. `name` is its name in the output, `modified` is in ns since 1970.

    most: how many of its rows are read, where not all are.
    """

    name: str
    path: str
    size: int
    modified: int
    format: str
    filesystem: fs.FileSystem = field(compare=False, repr=False)
    dialect: Dialect = PLAIN
    most: int | None = None

    @property
    def is_local(self) -> bool:
        """Tell whether it is on a disk."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def open(self) -> Any:
        """Return the file's bytes, to be read from any place."""
        return self.filesystem.open_input_file(self.path)

    def blames(self, error: Exception) -> bool:
        """Tell whether an error of reading says that the content is wrong, so that another try gives the same.

        pyarrow raises OSError for broken content too, then without an errno; but so it does for a network that fails.
        """
        if not isinstance(error, OSError):
            return isinstance(error, ArrowException)
        return not error.errno and self.is_local

    @property
    def partitions(self) -> dict[str, str | None]:
        """Return the columns that its folders tell, as in year=2024/day=7/part.parquet; always texts."""
        pairs = [part.partition("=") for part in PurePosixPath(self.name).parts[:-1]]
        return {
            unquote(key): None if value == NO_VALUE else unquote(value) for key, mark, value in pairs if mark and key
        }

    def identity(self) -> dict[str, Any]:
        """Return what has to stay the same between two starts."""
        known: dict[str, Any] = {"name": self.name, "size": self.size, "modified": self.modified, "format": self.format}
        said = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self.dialect).items()
            if value
        }
        return known | said | ({} if self.most is None else {"rows": self.most})


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
    """Return the files of all locations (paths, folders, wildcards, URIs), sorted by name, each once.

    form: parquet, jsonl, csv, tsv or txt for all files; None takes each file's from its name. output: the folder that
    is written, whose files are not read. Raises BadConfiguration where a location has nothing to read.
    """
    found = [file for location in locations for file in _of_location(location, form, output, dialect)]
    return sorted(_with_clear_names(_each_once(found)), key=lambda file: file.name)


def _each_once(files: list[InputFile]) -> list[InputFile]:
    """Return the files, of several paths to the same file one, which is not a link if possible.

    A link to a file outside of the input is a separate file: git-annex and DVC keep files of the same content once.
    """
    own = {file.path: (file.filesystem.type_name, _in_its_folder(file)) for file in files}
    held = set(own.values())
    found: dict[tuple[str, str], InputFile] = {}
    again = ""
    for file in sorted(files, key=lambda file: file.path != real_path(file.filesystem, file.path)):
        real = file.filesystem.type_name, real_path(file.filesystem, file.path)
        key = real if real in held else own[file.path]
        again = file.path if key in found else again
        found.setdefault(key, file)
    if again:
        more = len(files) - len(found)
        say(f"{more} more paths lead to files that are read already, for example {again}: each is read once")
    return list(found.values())


def _in_its_folder(file: InputFile) -> str:
    """Return the path behind the links of its folder."""
    folder, _, name = file.path.rpartition("/")
    return f"{real_path(file.filesystem, folder or '/').rstrip('/')}/{name}"


def real_path(filesystem: fs.FileSystem, path: str) -> str:
    """Return the path behind all links."""
    return os.path.realpath(path) if isinstance(filesystem, fs.LocalFileSystem) else path


def _of_location(location: str, form: str | None, output: str | None, dialect: Dialect) -> list[InputFile]:
    """Return the files of one location. Raises BadConfiguration when there are none: half an input is not the input."""
    filesystem, base, infos = _list(location)
    found = []
    unread: Counter[str] = Counter()
    for info in _outside(infos, filesystem, base, output):
        own = form or format_of(info.path)
        if own is None:
            unread[PurePosixPath(info.path).suffix] += 1
            continue
        if info.type == fs.FileType.NotFound:
            raise BadConfiguration(
                f"the input {info.path} is a link that leads nowhere: fetch what it stands for, or take it away"
            )
        name = str(PurePosixPath(info.path).relative_to(base))
        size, modified = int(info.size or 0), int(info.mtime_ns or 0)
        found.append(InputFile(name, info.path, size, modified, own, filesystem, dialect))
    if not found:
        what = f"{unread.total()} files there, none named {', '.join(FORMATS)}; --format says what they are"
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


def _list(location: str) -> tuple[fs.FileSystem, str, list[fs.FileInfo]]:
    """Return the filesystem, the folder that names are relative to and the files of one location."""
    try:
        return _listed(location)
    except UnicodeEncodeError as error:
        name = os.fsencode(str(error.object)[:300]).decode("utf-8", "backslashreplace")
        spoken = sys.getfilesystemencoding()
        what = "UTF-8" if spoken == "utf-8" else f"{spoken}, which PYTHONUTF8=0 or the locale says"
        way = "rename it" if spoken == "utf-8" else "set PYTHONUTF8=1"
        raise BadConfiguration(f"the input has a name that is not {what}: {name}; {way}") from None


def _listed(location: str) -> tuple[fs.FileSystem, str, list[fs.FileInfo]]:
    location, query = _without_query(location)
    # A password may hold any sign.
    wildcard = _WILDCARD.search(location, behind_password(location))
    if wildcard and not ("://" not in location and Path(location).exists()):
        head = location[: wildcard.start()].rpartition("/")[0]
        filesystem, base = open_filesystem((head or ("/" if location.startswith("/") else ".")) + query)
        if isinstance(filesystem, fs.LocalFileSystem) and "**" not in location:
            paths = glob.glob(f"{glob.escape(base.rstrip('/'))}/{location[len(head) :].lstrip('/')}")
            say_folders(location, [path for path in paths if os.path.isdir(path) and not _is_hidden(Path(path).name)])
            return filesystem, base, _readable(filesystem.get_file_info(paths), base)
        pattern = as_regex(f"{base.rstrip('/')}/{location[len(head) :].lstrip('/')}")
        below = _below(filesystem, base, location)
        say_folders(location, {f for i in below for f in folders_of(i.path, base) if pattern.fullmatch(f)})
        return filesystem, base, [info for info in below if pattern.fullmatch(info.path)]
    filesystem, path = open_filesystem(location + query)
    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise BadConfiguration(f"the input {location} does not exist")
    if info.type == fs.FileType.Directory:
        return filesystem, path, _below(filesystem, path, location)
    if info.type != fs.FileType.File:
        raise BadConfiguration(f"the input {location} is neither a file nor a folder: copy what it holds to a file")
    return filesystem, str(PurePosixPath(path).parent), [info]


def _without_query(location: str) -> tuple[str, str]:
    """Return a URI and its options, such as ?endpoint_override=...; a path has none."""
    body, mark, query = location.rpartition("?")
    return (body, mark + query) if mark and "://" in body and "=" in query else (location, "")


def _outside(infos: list[fs.FileInfo], filesystem: fs.FileSystem, base: str, output: str | None) -> list[fs.FileInfo]:
    """Return the files that are not the output's. Raises BadConfiguration when these were asked for."""
    if output is None:
        return infos
    other, path = open_filesystem(output)
    if other.type_name != filesystem.type_name:
        return infos
    root = PurePosixPath(real_path(other, path))
    start = PurePosixPath(real_path(filesystem, base))
    kept = []
    for info in infos:
        real = PurePosixPath(real_path(filesystem, info.path))
        if not real.is_relative_to(root):
            kept.append(info)
        elif start == root and real.relative_to(root).parts[0] == "data":
            # The result among the input: what another program has put there, the store refuses.
            continue
        elif start.is_relative_to(root):
            if real.relative_to(root).parts[0] == "data":
                raise BadConfiguration(f"the input {info.path} is in the output {output}: take another --output")
            kept.append(info)
    return kept


def _below(filesystem: fs.FileSystem, folder: str, location: str) -> list[fs.FileInfo]:
    """Return the files under a folder, without hidden ones and those that jobs mark with an underscore."""
    try:
        if isinstance(filesystem, fs.LocalFileSystem):
            infos = filesystem.get_file_info(_walk(folder))
        else:
            infos = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    except PermissionError as error:
        raise BadConfiguration(f"the input {location} may not be read: {error}") from None
    except FileNotFoundError:
        raise BadConfiguration(f"the input {location} does not exist: there is no folder {folder}") from None
    return _readable(_without_results(infos, folder), folder)


def _without_results(infos: list[fs.FileInfo], folder: str) -> list[fs.FileInfo]:
    """Return the files that are not in the results of this job below the folder: only who names them reads them."""
    plans = [PurePosixPath(info.path).parent for info in infos if info.base_name == PLAN]
    results = [plan for plan in plans if plan != PurePosixPath(folder)]
    if not results:
        return infos
    say(
        f"{len(results)} results of this job below {folder} are not read, for example {results[0]}; "
        "to read one, name it in --input"
    )
    return [info for info in infos if not any(PurePosixPath(info.path).is_relative_to(one) for one in results)]


def _readable(infos: list[fs.FileInfo], folder: str) -> list[fs.FileInfo]:
    depth = len(PurePosixPath(folder).parts)
    seen = [info for info in infos if not any(map(_is_hidden, PurePosixPath(info.path).parts[depth:]))]
    for info in seen:
        if info.type == fs.FileType.Unknown and format_of(info.path):
            raise BadConfiguration(
                f"the input {info.path} is neither a file nor a folder but a pipe, a socket or a device: take it away, "
                "or copy what it holds to a file"
            )
    return [
        info
        for info in seen
        if info.type == fs.FileType.File or (info.type == fs.FileType.NotFound and os.path.islink(info.path))
    ]


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) and name != ".."


def _walk(folder: str) -> list[str]:
    """Return the paths of all files under a folder. A link that leads to a folder around it is not followed."""

    def fail(error: OSError) -> None:
        raise error

    found = []
    for path, folders, files in os.walk(folder, onerror=fail, followlinks=True):
        around = os.path.realpath(path) + "/"
        folders[:] = [f for f in folders if not around.startswith(os.path.realpath(f"{path}/{f}").rstrip("/") + "/")]
        found += [f"{path.rstrip('/')}/{name}" for name in files]
    return found


def _with_clear_names(files: list[InputFile]) -> list[InputFile]:
    """Return the files; those that share a name with another one are called by their whole path."""
    count = Counter(file.name for file in files)
    if max(count.values()) == 1:
        return files
    return [replace(file, name=masked(file.path)) if count[file.name] > 1 else file for file in files]
