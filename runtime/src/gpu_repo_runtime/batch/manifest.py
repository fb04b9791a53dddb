"""The record of each finished part."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from .addresses import masked
from .formats import PARQUET, Form, as_bytes
from .parts import BadRow, Part, numbers, part_name
from .store import RECORDS, Store, read_all

QUARANTINE = "_quarantine"
_RECORD = re.compile(r"part-\d+-\d+\.json")
QUARANTINE_SCHEMA = pa.schema(
    [("file", pa.string()), ("row", pa.int64()), ("count", pa.int64()), ("reason", pa.string()), ("raw", pa.binary())]
)

# Of a file of the input and of a part in it.
Number = tuple[int, int]


@dataclass(frozen=True)
class Written:
    """A file with rows of a part. narrow_size: of the file before it got the types of all parts, else 0."""

    path: str
    size: int
    sha256: str
    narrow_size: int = 0

    @classmethod
    def of(cls, path: str, content: pa.Buffer, narrow_size: int = 0) -> "Written":
        """Return what is known of a file with this content."""
        return cls(path, content.size, hashlib.sha256(content).hexdigest(), narrow_size)


@dataclass(frozen=True)
class Record:
    """What is known of a finished part: of its `rows`, `written` are in the output, `bad` ones not, `blank` were none.

    end: byte of the input after the part, 0 where it is not needed. size and sha256: of the part's file. wider: it has
    columns of wider types than the plan's. narrow_size: that of its file before it got the types of all parts.
    quarantine_size and quarantine_sha256: of the file with its bad rows. version: of the input's file, where
    an object store tells it. uncounted: of the bad ones those that stand for an unknown number of rows. others: the
    files behind `file` that are in the same part, and `versions` those of all of them. form: the format of its file.
    by_folder: it has a file in each of several folders, which `pieces` are, and no checksum of its own.
    """

    file_index: int
    index: int
    file: str
    first_row: int
    rows: int
    written: int
    bad: int
    blank: int
    end: int
    last: bool
    size: int
    sha256: str
    wider: bool = False
    narrow_size: int = 0
    quarantine_size: int = 0
    quarantine_sha256: str = ""
    version: str = ""
    uncounted: int = 0
    others: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    form: str = "parquet"
    pieces: list[dict[str, Any]] = field(default_factory=list)
    by_folder: bool = False

    @property
    def name(self) -> str:
        """Return the name of the part."""
        return part_name(self.file_index, self.index)

    def published(self) -> dict[str, Any]:
        """Return what the manifest says of the part: without what is not so for most."""
        rare = {"wider", "narrow_size", "quarantine_size", "quarantine_sha256", "version", "uncounted"}
        rare |= {"others", "versions", "pieces", "by_folder"}
        found = {key: value for key, value in vars(self).items() if value or key not in rare}
        return {key: value for key, value in found.items() if (key, value) != ("form", "parquet")}

    @property
    def written_files(self) -> list["Written"]:
        """Return the files with the part's rows: one, or one for each folder."""
        if self.by_folder:
            return [Written(**piece) for piece in self.pieces]
        return [Written(f"{self.name}.{self.form}", self.size, self.sha256, self.narrow_size)]

    def sealed(self) -> bytes:
        """Return the record as it is written, with a checksum of itself."""
        return json.dumps({**vars(self), "seal": _seal(vars(self))}).encode()

    def with_files(self, files: list["Written"]) -> "Record":
        """Return the record with other files in place of these."""
        if self.by_folder:
            return replace(self, pieces=[asdict(one) for one in files], size=sum(one.size for one in files))
        return replace(self, size=files[0].size, sha256=files[0].sha256, narrow_size=files[0].narrow_size)


class Ledger:
    """The finished parts of an output, or those of them that a worker wants: a function of file and part.

    A record counts only while the part's files are there with their sizes; `damaged` are the others.
    """

    def __init__(self, store: Store, wants: Callable[[int, int], bool] = lambda file, part: True) -> None:
        self._store = store
        names = [n for n in sorted(store.sizes(RECORDS)) if _RECORD.fullmatch(n) and wants(*numbers(n))]
        found = [record for content in read_all(store, RECORDS, names) if (record := _read(content)) is not None]
        self.records, self.damaged = intact(store, found)

    def of_all(self) -> "Ledger":
        """Return the finished parts of all workers as they are now."""
        return Ledger(self._store)

    def write(
        self,
        part: Part,
        table: pa.Table,
        bad: list[BadRow],
        quarantine: bool,
        wider: bool = False,
        versions: dict[str, str] | None = None,
        form: Form = PARQUET,
    ) -> Record:
        """Bring a part to the output; it counts as finished when its record is there, which comes last.

        wider: the table has columns of wider types than the plan's. versions: of the input's files. form: of the
        part's files.
        """
        contents = form.files(table, part.name)
        if bad and quarantine:
            rows = [
                {"file": file.name, "row": row, "count": b.count, "reason": _stored(b.reason), "raw": b.raw}
                for b in bad
                for file, row in [part.origin(b.row)]
            ]
            quarantined = as_bytes(pa.Table.from_pylist(rows, QUARANTINE_SCHEMA))
            self._store.write(f"{QUARANTINE}/{part.name}.parquet", quarantined)
        else:
            quarantined = b""
        for name, content in contents.items():
            self._store.write(f"{self._store.parts}/{name}", content)
        written = [Written.of(name, content) for name, content in contents.items()]
        alone = written[0] if not form.folders else Written("", sum(one.size for one in written), "")
        count = sum(b.count for b in bad)
        record = Record(
            file_index=part.file_index,
            index=part.index,
            file=part.file.name,
            first_row=part.first_row,
            rows=part.rows,
            written=len(table),
            bad=count,
            blank=part.rows - len(table) - count,
            end=part.end,
            last=part.last,
            size=alone.size,
            sha256=alone.sha256,
            form=form.name,
            pieces=[asdict(one) for one in written] if form.folders else [],
            by_folder=bool(form.folders),
            wider=wider,
            version="" if part.members else (versions or {}).get(part.file.name, ""),
            others=[file.name for file in part.files[1:]],
            versions=(versions or {}) if part.members else {},
            uncounted=sum(b.uncounted for b in bad),
            quarantine_size=len(quarantined),
            quarantine_sha256=hashlib.sha256(quarantined).hexdigest() if quarantined else "",
        )
        self.remember(record)
        return record

    def remember(self, record: Record) -> None:
        """Write the record of a part. If the power fails before it is on the disk, the part is made again."""
        self._store.write(f"{RECORDS}/{record.name}.json", record.sealed(), lasting=False)
        self.records[record.file_index, record.index] = record


def intact(store: Store, records: Iterable[Record]) -> tuple[dict[Number, Record], dict[Number, Record]]:
    """Return the records whose files are there with their sizes, and the others."""
    parts, quarantined = store.sizes_of_parts(), store.sizes(QUARANTINE)
    good: dict[Number, Record] = {}
    damaged: dict[Number, Record] = {}
    for record in records:
        name = f"{record.name}.parquet"
        whole = all(parts.get(one.path) in (one.size, one.narrow_size or one.size) for one in record.written_files)
        whole = whole and quarantined.get(name, 0) == (record.quarantine_size or quarantined.get(name, 0))
        (good if whole else damaged)[record.file_index, record.index] = record
    return good, damaged


def _read(content: bytes) -> Record | None:
    """Return a record, None for one that was cut or changed: then its part is done again."""
    try:
        found = json.loads(content)
        seal = found.pop("seal")
        return Record(**found) if seal == _seal(found) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _seal(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def _stored(reason: str) -> str:
    """Return a reason as a column holds it: a message may name a file of which half a character is all that is left."""
    return masked(reason).encode("utf-8", "backslashreplace").decode()
