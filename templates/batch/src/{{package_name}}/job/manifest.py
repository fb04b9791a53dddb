"""The record of each finished part."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .addresses import masked
from .parts import BadRow, Part, numbers, part_name
from .plan import to_json
from .store import Store, read_all

RECORDS = "_records"
QUARANTINE = "_quarantine"
QUARANTINE_SCHEMA = pa.schema(
    [("file", pa.string()), ("row", pa.int64()), ("count", pa.int64()), ("reason", pa.string())]
)


@dataclass(frozen=True)
class Record:
    """What is known of a finished part: of its `rows`, `written` are in the output, `bad` ones not, `blank` were none.

    end: byte of the input after the part, 0 where it is not needed. size and sha256: of the part's file. wider: it has
    columns of wider types than the plan's. narrow: the checksum that its file had before it got the types of all parts.
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
    narrow: str = ""

    @property
    def name(self) -> str:
        """Return the name of the part."""
        return part_name(self.file_index, self.index)

    def published(self) -> dict[str, Any]:
        """Return what the manifest says of the part."""
        return {key: value for key, value in asdict(self).items() if key not in ("wider", "narrow")}


class Ledger:
    """The finished parts of an output, or those of them that a worker wants: a function of file and part."""

    def __init__(self, store: Store, wants: Callable[[int, int], bool] = lambda file, part: True) -> None:
        self._store = store
        names = [name for name in sorted(store.names(RECORDS)) if wants(*numbers(name))]
        found = [Record(**json.loads(content)) for content in read_all(store, RECORDS, names)]
        self.records = {(record.file_index, record.index): record for record in found}

    def write(self, part: Part, table: pa.Table, bad: list[BadRow], quarantine: bool, wider: bool = False) -> Record:
        """Bring a part to the output; it counts as finished when its record is there, which comes last.

        wider: the table has columns of wider types than the plan's.
        """
        content = as_parquet(table)
        if bad and quarantine:
            rows = [{"file": part.file.name, "row": b.row, "count": b.count, "reason": masked(b.reason)} for b in bad]
            quarantined = as_parquet(pa.Table.from_pylist(rows, QUARANTINE_SCHEMA))
            self._store.write(f"{QUARANTINE}/{part.name}.parquet", quarantined)
        self._store.write(f"{self._store.parts}/{part.name}.parquet", content)
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
            size=content.size,
            sha256=hashlib.sha256(content).hexdigest(),
            wider=wider,
        )
        self.remember(record)
        return record

    def remember(self, record: Record) -> None:
        """Write the record of a part."""
        self._store.write(f"{RECORDS}/{record.name}.json", to_json(asdict(record)))
        self.records[record.file_index, record.index] = record


def as_parquet(table: pa.Table) -> pa.Buffer:
    """Return the table as a Parquet file, the same bytes for the same table."""
    sink = pa.BufferOutputStream()
    # A dictionary costs as much as all the rest, and only what repeats gets smaller by it: surely the file's name.
    pq.write_table(table, sink, compression="zstd", use_dictionary=["file"])
    return sink.getvalue()
