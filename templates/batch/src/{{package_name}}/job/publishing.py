"""The end of the job: all parts there, of one schema; then manifest and `_SUCCESS`."""

import hashlib
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .exits import BadInput, JobError
from .manifest import RECORDS, Ledger, Record, as_parquet
from .parts import part_name
from .plan import to_json
from .store import SUCCESS, TEMPORARY, FinishedElsewhere, Store
from .widening import common_schema

MANIFEST = "_manifest.json"


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
    ledger = Ledger(store)
    records = [record for _, record in sorted(ledger.records.items())]
    try:
        _check_rows(records)
    except JobError:
        # The records go when the result is published: then some of them were gone already.
        if store.read(SUCCESS) is not None:
            raise FinishedElsewhere from None
        raise
    # First of all: on a disk nobody can write a part any more once the folder has its last name.
    store.publish()
    if any(record.wider for record in records):
        records = _of_one_schema(store, ledger, records)
    counts = {key: sum(getattr(record, key) for record in records) for key in ("rows", "written", "bad")}
    store.write(MANIFEST, to_json({**counts, "parts": [record.published() for record in records]}))
    store.write("_provenance.json", to_json({**provenance, **counts}))
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


def _of_one_schema(store: Store, ledger: Ledger, records: list[Record]) -> list[Record]:
    """Write the parts again that have columns of narrower types than others. Return the records of all."""
    schemas = [pq.read_schema(pa.BufferReader(_content(store, record))) for record in records]
    try:
        schema = common_schema(schemas)
    except pa.ArrowTypeError as error:
        raise BadInput(
            f"the parts have no common type: {error}; leave it out with --keep and another --output"
        ) from None
    return [
        record if own.equals(schema) else _rewritten(store, ledger, record, schema)
        for record, own in zip(records, schemas, strict=True)
    ]


def _rewritten(store: Store, ledger: Ledger, record: Record, schema: pa.Schema) -> Record:
    table = pq.read_table(pa.BufferReader(_content(store, record)), partitioning=None)
    content = as_parquet(table.cast(schema))
    narrow = record.narrow or record.sha256
    wide = replace(record, size=content.size, sha256=hashlib.sha256(content).hexdigest(), narrow=narrow)
    # The record comes first: it knows both checksums, so that a kill between the two leaves nothing that looks broken.
    ledger.remember(wide)
    store.write(f"{store.parts}/{record.name}.parquet", content)
    return wide


def _content(store: Store, record: Record) -> bytes:
    content = store.read(f"{store.parts}/{record.name}.parquet")
    if content is None:
        raise JobError(f"{record.name} of {record.file} is gone; start again to make it anew")
    return content
