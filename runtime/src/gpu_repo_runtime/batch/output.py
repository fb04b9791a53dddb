"""The output folder. A part is a Parquet file that appears whole or not at all, and its footer is its record."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from .exits import DONE, BadConfiguration
from .inputs import open_filesystem
from .messages import masked
from .parts import READERS, Part

DATA, WAITING, TEMPORARY, QUARANTINE, SUCCESS = "data", "_parts", "_tmp", "_quarantine", "_SUCCESS"
_KEY = b"job"
_QUARANTINED = pa.schema([("file", pa.string()), ("row", pa.int64()), ("reason", pa.string()), ("raw", pa.binary())])


class FinishedElsewhere(Exception):
    """Another worker has published the result while this one was writing a part of it."""

    code = DONE


@dataclass
class Record:
    """The footer of a part: of its `rows`, `written` are in it and `bad` ones in quarantine or left out.

    cause: the most frequent reason of the bad ones, and their number. quarantine: the bytes of the file with its bad
    rows. size: of the part's own file.
    """

    unit: int
    index: int
    rows: int
    written: int
    bad: int
    last: bool
    files: list[str]
    versions: dict[str, str] = field(default_factory=dict)
    cause: dict[str, int] = field(default_factory=dict)
    quarantine: int = 0
    size: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """Return the name of the part."""
        return part_name(self.unit, self.index)

    def as_dict(self) -> dict[str, Any]:
        """Return what the footer and the manifest contain."""
        return {key: value for key, value in vars(self).items() if key != "size"}


class Output:
    """A folder on a disk or in an object store.

    On a disk parts wait in `_parts` and become `data` by one rename. In a store nothing can be renamed: they are in
    `data` from the beginning, and `_SUCCESS` alone says that all of them are there.
    """

    def __init__(self, location: str) -> None:
        """Raises BadConfiguration when the folder cannot be made."""
        self._fs, path = open_filesystem(location, for_writing=True)
        self._root, self._local = path.rstrip("/"), isinstance(self._fs, fs.LocalFileSystem)
        if not self._local:
            return
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError, FileNotFoundError, PermissionError) as error:
            raise BadConfiguration(f"the output folder {location} cannot be made: {error}") from None

    @property
    def parts(self) -> str:
        """Return the folder that the parts are in now."""
        return DATA if not self._local or Path(self._root, DATA).is_dir() else WAITING

    @property
    def is_complete(self) -> bool:
        """Tell whether the result is published."""
        return self.has(SUCCESS)

    def prepare(self) -> None:
        """Make the folders to write in, unless the output is complete."""
        if self._local and not self.is_complete:
            for name in (TEMPORARY, self.parts):
                Path(self._root, name).mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Tell whether there is a file."""
        return bool(self._fs.get_file_info(f"{self._root}/{name}").type == fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None where there is none."""
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                content: bytes = stream.read()
                return content
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file: it appears whole or not at all. Raises FinishedElsewhere."""
        path = f"{self._root}/{name}"
        if not self._local:
            with self._fs.open_output_stream(path) as stream:
                stream.write(content)
            return
        temporary = f"{self._root}/{TEMPORARY}/{uuid.uuid4().hex}"
        try:
            folder = name.rpartition("/")[0]
            if folder and folder not in (WAITING, DATA):
                os.makedirs(f"{self._root}/{folder}", exist_ok=True)
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, FileNotFoundError) and self.parts == DATA:
                raise FinishedElsewhere from None
            raise

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{name}")

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names of the files in a folder and their bytes."""
        found = self._fs.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        return {info.base_name: int(info.size or 0) for info in found if info.type == fs.FileType.File}

    def checksum(self, name: str) -> str:
        """Return the SHA-256 of a file, "" where there is none; a block at a time is in memory."""
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return ""

    def tidy(self, folder: str) -> None:
        """Delete a folder of files that are no longer needed."""
        if self._local:
            shutil.rmtree(f"{self._root}/{folder}", ignore_errors=True)

    def make_data(self) -> None:
        """Make the waiting parts the result, by one rename."""
        if not self._local:
            return
        with contextlib.suppress(FileNotFoundError):
            Path(self._root, WAITING).rename(Path(self._root, DATA))
        folder = os.open(self._root, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def write_part(self, part: Part, table: pa.Table, kept: pa.Schema | None, versions: dict[str, str]) -> Record:
        """Write a part, which is finished from then on; its bad rows are written before it.

        kept: the columns that bad rows are written with, None to leave them out. versions: the ETags of the part's
        files, where a store has them.
        """
        reasons = Counter(_stored(one.reason) for one in part.bad)
        record = Record(
            unit=part.unit,
            index=part.index,
            rows=part.rows,
            written=len(table),
            bad=len(part.bad),
            last=part.last,
            files=[file.name for file in part.files],
            versions=versions,
            cause=dict(reasons.most_common(1)),
        )
        name = f"{record.name}.parquet"
        if kept is not None and part.bad:
            rows = [one.kept | vars(one) | {"reason": _stored(one.reason)} for one in part.bad]
            more = [field for field in kept if field.name not in _QUARANTINED.names]
            content = as_bytes(pa.Table.from_pylist(rows, pa.schema([*_QUARANTINED, *more])))
            record.quarantine = content.size
            self.write(f"{QUARANTINE}/{name}", content)
        footer = table.replace_schema_metadata({_KEY: json.dumps(record.as_dict())})
        self.write(f"{self.parts}/{name}", as_bytes(footer))
        return record

    def records(self, wants: Callable[[int, int], bool] = lambda unit, part: True) -> dict[tuple[int, int], Record]:
        """Return the records of finished parts. A part that cannot be read, or lacks its bad rows, is not finished."""
        names = []
        # In this order: what a rename takes away in between is in the second folder.
        for folder in dict.fromkeys((WAITING if self._local else DATA, DATA)):
            names += [(folder, name, size) for name, size in self.sizes(folder).items() if _numbers(name)]
        wanted = [one for one in names if wants(*_numbers(one[1]))]
        with ThreadPoolExecutor(READERS) as pool:
            found = [one for one in pool.map(self._record, wanted) if one]
        quarantined = self.sizes(QUARANTINE) if any(one.quarantine for one in found) else {}
        whole = [one for one in found if one.quarantine in (0, quarantined.get(f"{one.name}.parquet"))]
        return {(one.unit, one.index): one for one in sorted(whole, key=lambda one: (one.unit, one.index))}

    def _record(self, place: tuple[str, str, int]) -> Record | None:
        folder, name, size = place
        for one in dict.fromkeys((folder, DATA)):
            try:
                schema = pq.read_schema(self._fs.open_input_file(f"{self._root}/{one}/{name}"))
                record = Record(**json.loads(schema.metadata[_KEY]), size=size)
                return record if f"{record.name}.parquet" == name else None
            except FileNotFoundError:
                continue
            except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
                return None
        return None


def part_name(unit: int, index: int) -> str:
    """Return the name of part `index` of a unit."""
    return f"part-{unit:05d}-{index:06d}"


def to_json(value: Any) -> bytes:
    """Return the value as JSON for people to read, the same bytes for the same value."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _numbers(name: str) -> tuple[int, ...]:
    found = re.fullmatch(r"part-(\d+)-(\d+)\.parquet", name)
    return tuple(map(int, found.groups())) if found else ()


def as_bytes(table: pa.Table) -> pa.Buffer:
    """Return the table as a Parquet file."""
    sink = pa.BufferOutputStream()
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(table, sink, compression="zstd", use_dictionary=texts, write_page_checksum=True)
    return sink.getvalue()


def _stored(reason: str) -> str:
    """Return a reason as a column holds it: a message may name a file by half a character."""
    return masked(reason).encode("utf-8", "backslashreplace").decode()
