"""The record of each finished part, and the end of the job: all parts there, manifest, result, `_SUCCESS`."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .addresses import masked
from .exits import JobError
from .parts import BadRow, Part, numbers, part_name
from .plan import to_json
from .store import SUCCESS, TEMPORARY, FinishedElsewhere, Store, read_all

RECORDS = "_records"
QUARANTINE = "_quarantine"
MANIFEST = "_manifest.json"
QUARANTINE_SCHEMA = pa.schema(
    [("file", pa.string()), ("row", pa.int64()), ("count", pa.int64()), ("reason", pa.string())]
)


@dataclass(frozen=True)
class Record:
    """What is known of a finished part: of its `rows`, `written` are in the output, `bad` ones not, `blank` were none.

    end: byte of the input after the part, 0 where it is not needed. size and sha256: of the part's file.
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

    @property
    def name(self) -> str:
        """Return the name of the part."""
        return part_name(self.file_index, self.index)


class Ledger:
    """The finished parts of an output, or those of them that a worker wants: a function of file and part."""

    def __init__(self, store: Store, wants: Callable[[int, int], bool] = lambda file, part: True) -> None:
        self._store = store
        names = [name for name in sorted(store.names(RECORDS)) if wants(*numbers(name))]
        found = [Record(**json.loads(content)) for content in read_all(store, RECORDS, names)]
        self.records = {(record.file_index, record.index): record for record in found}

    def write(self, part: Part, table: pa.Table, bad: list[BadRow], quarantine: bool) -> Record:
        """Bring a part to the output; it counts as finished when its record is there, which comes last."""
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
        )
        self._store.write(f"{RECORDS}/{part.name}.json", to_json(asdict(record)))
        self.records[part.file_index, part.index] = record
        return record


def as_parquet(table: pa.Table) -> pa.Buffer:
    """Return the table as a Parquet file, the same bytes for the same table."""
    sink = pa.BufferOutputStream()
    # A dictionary costs as much as all the rest, and only what repeats gets smaller by it: surely the file's name.
    pq.write_table(table, sink, compression="zstd", use_dictionary=["file"])
    return sink.getvalue()


def missing_parts(store: Store, files: int) -> list[str]:
    """Return what is not finished, in words: parts, or files whose number of parts nobody has recorded."""
    last = {record.file_index: record.index for record in Ledger(store).records.values() if record.last}
    there, data = store.names(RECORDS), store.names(store.parts)
    missing = [f"the end of file {index}" for index in range(files) if index not in last]
    for file_index, end in sorted(last.items()):
        for index in range(end + 1):
            name = part_name(file_index, index)
            if f"{name}.json" not in there or f"{name}.parquet" not in data:
                missing.append(name)
    return missing


def finish(store: Store, provenance: dict[str, Any]) -> dict[str, int]:
    """Publish the result when every part is there and return the counts of rows, written and bad ones.

    Several workers may do this at the same time: each step can be repeated, and the temporary folder goes before the
    records, so that whoever reads too few of them cannot write any more. Raises FinishedElsewhere then, JobError when
    records do not fit.
    """
    records = [record for _, record in sorted(Ledger(store).records.items())]
    try:
        _check_rows(records)
    except JobError:
        # The records go when the result is published: then some of them were gone already.
        if store.read(SUCCESS) is not None:
            raise FinishedElsewhere from None
        raise
    counts = {key: sum(getattr(record, key) for record in records) for key in ("rows", "written", "bad")}
    store.write(MANIFEST, to_json({**counts, "parts": [asdict(record) for record in records]}))
    store.write("_provenance.json", to_json({**provenance, **counts}))
    store.publish()
    store.write(SUCCESS, b"")
    store.tidy(TEMPORARY)
    store.tidy(RECORDS)
    return counts


def _check_rows(records: list[Record]) -> None:
    """Check that the parts of each file follow one another without gap or overlap."""
    by_file = defaultdict(list)
    for record in records:
        by_file[record.file_index].append(record)
    for parts in by_file.values():
        row = 0
        for record in sorted(parts, key=lambda r: r.index):
            if record.first_row != row:
                raise JobError(
                    f"{record.name} of {record.file} begins at row {record.first_row}, not {row}: start anew"
                )
            row += record.rows
