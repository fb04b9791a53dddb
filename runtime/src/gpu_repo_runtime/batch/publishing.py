"""The end of the job: all parts there, of one schema; then manifest and `_SUCCESS`."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .budget import judge
from .commontypes import common_schema
from .exits import BadConfiguration, BadInput, JobError
from .formats import as_bytes
from .manifest import QUARANTINE, Ledger, Number, Record, Written, intact
from .messages import say
from .parts import part_name
from .plan import NAME as PLAN
from .plan import to_json
from .store import DATA, RECORDS, SUCCESS, TEMPORARY, FinishedElsewhere, Store

MANIFEST = "_manifest.json"
READERS = 4
_IS_PARQUET = re.compile(r".*\.parquet").fullmatch
_PART = re.compile(r"part-\d+-\d+\.")


class Damaged(JobError):
    """Parts are not what was written; their numbers are in `parts`."""

    def __init__(self, records: list[Record]) -> None:
        some = ", ".join(f"{record.name} of {record.file}" for record in records[:3])
        more = " ..." if len(records) > 3 else ""
        self.found = f"gone or not what was written: {some}{more}"
        super().__init__(f"{self.found}; start `run` again to make it anew")
        self.parts = frozenset((record.file_index, record.index) for record in records)


def missing_parts(store: Store, files: int) -> list[str]:
    """Return what is not finished, in words: parts, or files whose number of parts nobody has recorded.

    Raises Damaged when there are parts whose files were deleted or cut after they were finished.
    """
    ledger = Ledger(store)
    last = {record.file_index: record.index for record in ledger.records.values() if record.last}
    missing = [f"the end of file {index}" for index in range(files) if index not in last]
    for file_index, end in sorted(last.items()):
        missing += [
            part_name(file_index, index) for index in range(end + 1) if (file_index, index) not in ledger.records
        ]
    if ledger.damaged and store.read(SUCCESS) is None:
        raise Damaged(list(ledger.damaged.values()))
    return missing


def reopen_when_damaged(store: Store) -> bool:
    """Tell whether a complete output lacks files, and begin it again then, with the records of what is there."""
    good, damaged = _published(store)
    unlisted = [name for name in _unlisted(store, {**(good or {}), **damaged}) if _PART.match(PurePosixPath(name).name)]
    if not damaged and good is not None and not unlisted:
        return False
    what = f"lacks {len(damaged)} parts: they are" if damaged else "has no manifest that can be read: it is"
    what = f"holds {unlisted[0]}, of which its manifest does not tell: such parts are" if unlisted and good else what
    say(f"the output was complete, and now {what} made anew")
    store.prepare_again()
    for record in (good or {}).values():
        store.write(f"{RECORDS}/{record.name}.json", record.sealed())
    store.delete(SUCCESS)
    return True


def judge_published(store: Store, max_bad: float) -> None:
    """Raise BadInput when more than a share of the rows of a complete output was bad."""
    manifest = json.loads(store.read(MANIFEST) or b"{}")
    written, bad, uncounted = (int(manifest.get(key) or 0) for key in ("written", "bad", "uncounted"))
    judge(written + bad, bad, uncounted, max_bad)


def check_published(store: Store) -> None:
    """Raise Damaged when a complete output lacks files."""
    good, damaged = _published(store)
    if damaged or good is None:
        raise Damaged(list(damaged.values()))


def changed_files(store: Store) -> list[str]:
    """Say which files of a complete output are gone or are not what was written, by their checksums."""
    good, damaged = _published(store)
    found = [f"{record.name} of {record.file} is gone, or has another size" for record in damaged.values()]
    with ThreadPoolExecutor(READERS) as pool:
        unlike = [name for names in pool.map(partial(_unlike, store, DATA), (good or {}).values()) for name in names]
    every = {**(good or {}), **damaged}
    others = [*_unlisted(store, every), *_unlisted_bad_rows(store, every.values())]
    found += [f"{name} is none of the manifest's files" for name in others]
    return found + [f"{name} is not what was written" for name in unlike]


def _unlisted(store: Store, records: dict[Number, Record]) -> list[str]:
    """Return the files among the result that no record tells of."""
    known = {one.path for record in records.values() for one in record.written_files}
    return sorted(store.sizes_of_parts().keys() - known)


def _unlisted_bad_rows(store: Store, records: Iterable[Record]) -> list[str]:
    """Return the files of quarantine that no record tells of."""
    known = {f"{record.name}.parquet" for record in records if record.quarantine_size}
    return [f"{QUARANTINE}/{name}" for name in sorted(store.sizes(QUARANTINE).keys() - known) if _IS_PARQUET(name)]


def _unlike(store: Store, folder: str, record: Record) -> list[str]:
    """Return the files of a part that have not the checksum that was written."""
    wanted = [(f"{folder}/{one.path}", one.sha256) for one in record.written_files]
    if record.quarantine_size:
        wanted.append((f"{QUARANTINE}/{record.name}.parquet", record.quarantine_sha256))
    return [name for name, checksum in wanted if store.checksum(name) != checksum]


def _published(store: Store) -> tuple[dict[Number, Record] | None, dict[Number, Record]]:
    """Return the records of the manifest whose files are there (None without a manifest) and the others."""
    try:
        parts = json.loads(store.read(MANIFEST) or b"")["parts"]
        return intact(store, [Record(**part) for part in parts])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None, {}


def finish(store: Store, provenance: dict[str, Any], max_bad: float) -> dict[str, int]:
    """Publish the result when every part is there and return the counts of rows, written and bad ones.

    Several workers may do this at the same time: each step can be repeated, and the temporary folder goes before the
    records, so that whoever reads too few of them cannot write any more. Raises FinishedElsewhere then, JobError when
    records do not fit, Damaged when a file is not what was written, BadInput when more than the share `max_bad` of all
    rows is bad.
    """
    ledger = Ledger(store)
    records = [record for _, record in sorted(ledger.records.items())]
    counts = _counts(records)
    try:
        _check_rows(records)
        if not ledger.damaged:
            judge(counts["written"] + counts["bad"], counts["bad"], counts.get("uncounted", 0), max_bad)
    except JobError:
        # The records go when the result is published: then some of them were gone already.
        if store.read(SUCCESS) is not None:
            raise FinishedElsewhere from None
        raise
    if ledger.damaged:
        raise Damaged(list(ledger.damaged.values()))
    # First of all: on a disk nobody can write a part any more once the folder has its last name.
    store.publish()
    # In the other formats a value has no type but its own.
    if any(record.wider and record.form == "parquet" for record in records):
        records = _of_one_schema(store, ledger, records)
    _check_content(store, records)
    _check_no_others(store, records)
    store.write(MANIFEST, to_json({**counts, "parts": [record.published() for record in records]}))
    store.write("_provenance.json", to_json({**provenance, **counts}))
    store.write(SUCCESS, b"")
    tidy(store)
    return counts


def tidy(store: Store) -> None:
    """Take away what a complete output needs no more, also where a kill has come between."""
    store.tidy(TEMPORARY)
    store.tidy(RECORDS)


def _counts(records: list[Record]) -> dict[str, int]:
    counts = {key: sum(getattr(record, key) for record in records) for key in ("rows", "written", "bad")}
    return counts | ({"uncounted": uncounted} if (uncounted := sum(record.uncounted for record in records)) else {})


def _check_rows(records: list[Record]) -> None:
    """Check that the parts of each file follow one another without gap or overlap."""
    by_file = defaultdict(list)
    for record in records:
        by_file[record.file_index].append(record)
    for parts in by_file.values():
        row = 0
        if len(versions := {record.version for record in parts}) > 1:
            raise BadConfiguration(f"{parts[0].file} has changed during the run: {' and '.join(sorted(versions))}")
        for record in sorted(parts, key=lambda r: r.index):
            if record.first_row != row:
                raise JobError(
                    f"{record.name} of {record.file} begins at row {record.first_row}, not {row}: start anew"
                )
            row += record.rows


def _check_content(store: Store, records: list[Record]) -> None:
    """Raise Damaged, and forget the records, where a file has not the checksum that was written."""
    with ThreadPoolExecutor(READERS) as pool:
        unlike = pool.map(partial(_unlike, store, store.parts), records)
        damaged = [record for record, names in zip(records, unlike, strict=True) if names]
    if damaged and store.read(SUCCESS) is None:
        for record in damaged:
            store.delete(f"{RECORDS}/{record.name}.json")
        raise Damaged(damaged)


def _check_no_others(store: Store, records: list[Record]) -> None:
    """Raise BadConfiguration when there are files among the result or its bad rows that no part has written."""
    there = store.sizes_of_parts().keys()
    others = there - {one.path for record in records for one in record.written_files}
    places = {f"{store.parts}/{name}" for name in others} | set(_unlisted_bad_rows(store, records))
    own = {f"{record.name}.{record.form}" for record in records if record.by_folder}
    own |= {f"{QUARANTINE}/{record.name}.parquet" for record in records}
    for place in sorted(places):
        # A kill left them: when the part was made again, its rows went to other folders, or none of them was bad.
        if place in own or PurePosixPath(place).name in own:
            store.delete(place)
            places.remove(place)
    if places and store.read(SUCCESS) is None:
        folder, _, name = min(places).partition("/")
        raise BadConfiguration(
            f"{folder} holds {name!r}, which this job has not written and readers would take for a result: "
            "take it away and start again"
        )


def check_ours(store: Store, output: str) -> None:
    """Raise BadConfiguration when an output without a plan has a result: another program's, or an older one."""
    found = SUCCESS if store.read(SUCCESS) is not None else min(store.sizes(DATA), default="")
    # Parts that nobody knows the code and the options of would be published beside others.
    found = found or min((f"{RECORDS}/{name}" for name in store.sizes(RECORDS)), default="")
    if found and store.read(PLAN) is None:
        raise BadConfiguration(
            f"{output} holds {found}, and no {PLAN} of this job: take another --output, or delete what is there"
        )


def _of_one_schema(store: Store, ledger: Ledger, records: list[Record]) -> list[Record]:
    """Write the parts again that have columns of narrower types than others. Return the records of all."""
    schemas = [[_schema_of(store, record, one) for one in record.written_files] for record in records]
    if not any(schemas):
        return records
    try:
        schema = common_schema([schema for some in schemas for schema in some])
    except pa.ArrowTypeError as error:
        raise BadInput(
            f"the parts have no common type: {error}; leave it out with --keep and another --output"
        ) from None
    return [
        record if all(one.equals(schema) for one in own) else _rewritten(store, ledger, record, schema)
        for record, own in zip(records, schemas, strict=True)
    ]


def _schema_of(store: Store, record: Record, file: Written) -> pa.Schema:
    return pq.read_schema(pa.BufferReader(_content(store, record, file)))


def _rewritten(store: Store, ledger: Ledger, record: Record, schema: pa.Schema) -> Record:
    files, contents = [], []
    for file in record.written_files:
        table = pq.read_table(pa.BufferReader(_content(store, record, file)), partitioning=None)
        try:
            contents.append(as_bytes(table.cast(schema)))
        except pa.ArrowException as error:
            raise BadInput(
                f"{record.name} of {record.file} does not fit the columns of the others: {error}; leave such a column "
                "out with --keep and another --output"
            ) from None
        files.append(Written.of(file.path, contents[-1], file.narrow_size or file.size))
    wide = record.with_files(files)
    # The record comes first: it knows both sizes, so that a kill between the two leaves nothing that looks broken.
    ledger.remember(wide)
    for file, content in zip(files, contents, strict=True):
        store.write(f"{store.parts}/{file.path}", content)
    return wide


def _content(store: Store, record: Record, file: Written) -> bytes:
    content = store.read(f"{store.parts}/{file.path}")
    if content is None:
        raise Damaged([record])
    return content
