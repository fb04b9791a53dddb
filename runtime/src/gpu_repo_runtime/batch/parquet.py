"""Reader of Parquet files: their rows in the types of the plan, and the bad rows."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from .columns import Columns, cast
from .exits import BadInput
from .parts import INPUT, ROW, BadRow, InputFile, Limits, Parsed, Piece
from .text import BROKEN, damage_of

# How much of a row group is in memory at once while it is read.
READ_ROWS = 16_384
READ_BYTES = 4 << 20
SAMPLE_ROWS = 256
# With a buffer, pyarrow does not hold whole columns of a row group.
OPTIONS = {
    "coerce_int96_timestamp_unit": "us",
    "page_checksum_verification": True,
    "pre_buffer": False,
    "buffer_size": READ_BYTES,
}


class ParquetReader:
    """Reads a file piece by piece. The sizes of pieces follow from the footer and the first rows."""

    def __init__(self, file: InputFile, columns: Columns, limits: Limits) -> None:
        """Raises Damaged, BadInput."""
        self._file, self._columns, self._limits = file, columns, limits
        try:
            self._source = pq.ParquetFile(file.open(), **OPTIONS)
        except BROKEN as error:
            raise damage_of(file, error, "the file cannot be read") from error
        schema, metadata = self._source.schema_arrow, self._source.metadata
        columns.check(file.name, schema.names)
        self._check_text()
        self._names = [name for name in columns.names if name in schema.names]
        self._groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    def _check_text(self) -> None:
        if self._columns.typed:
            return
        form = self._source.schema_arrow.field(self._columns.text).type
        form = form.value_type if types.is_dictionary(form) else form
        is_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
        if not any(test(form) for test in is_text):
            raise BadInput(f"{self._file.name}: column {self._columns.text!r} holds {form}, the model needs text")

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows of the file. Nothing is read of a row group of which no piece is loaded."""
        row, total = 0, self._source.metadata.num_rows
        at_once = min(READ_BYTES, self._limits.size)
        for number, mean in enumerate(self._mean_bytes()):
            rows = max(1, min(READ_ROWS, self._limits.rows, int(at_once / mean)))
            group = _RowGroup(self._source.iter_batches(rows, [number], self._names, use_threads=False))
            end = row + self._groups[number].num_rows
            for place, begin in enumerate(range(row, end, rows)):
                count = min(rows, end - begin)
                load = partial(self._load, group, place, begin, count)
                yield Piece(begin, count, count * mean, (begin + count) / total, load)
            row = end

    def _mean_bytes(self) -> list[float]:
        """Return the mean bytes of the rows of each row group, of the columns that are read."""
        schema, own = self._source.metadata.schema, set(self._names)
        columns = [n for n in range(len(schema)) if _is_in(schema.column(n).path, own)]
        sizes = [sum(group.column(n).total_uncompressed_size for n in columns) for group in self._groups]
        means = [max(1.0, size / max(1, group.num_rows)) for size, group in zip(sizes, self._groups, strict=True)]
        # A value that comes again and again is in the file once: only reading tells how large such rows are.
        if sum(size * group.num_rows for size, group in zip(sizes, self._groups, strict=True)) > self._limits.size:
            rows = max(1, min(SAMPLE_ROWS, int(min(READ_BYTES, self._limits.size) / max(means))))
            try:
                first = next(self._source.iter_batches(rows, columns=self._names, use_threads=False), None)
                means = [max(mean, first.nbytes / len(first)) for mean in means] if first else means
            except BROKEN as error:
                if not self._file.blames(error):
                    raise
        return means

    def _load(self, group: "_RowGroup", place: int, row: int, count: int) -> Parsed:
        try:
            table = pa.Table.from_batches([group.read(place)])
        except BROKEN as error:
            if not self._file.blames(error):
                raise
            reason = f"the row group cannot be read: {' '.join(str(error).split())}"
            return None, [BadRow(row, reason, count)]
        if len(table) != count:
            raise BadInput(f"{self._file.name}: pyarrow returned {len(table)} rows for {count} from row {row} on")
        return _typed(table, row, self._columns)


class _RowGroup:
    """The batches of a row group, which can be read in their order only."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._read = batches, 0

    def read(self, place: int) -> pa.RecordBatch:
        """Return a batch; those before it that were not read yet are passed over."""
        for _ in range(self._read, place):
            next(self._batches, None)
        self._read = place + 1
        if found := next(self._batches, None):
            return found
        raise pa.ArrowInvalid("what comes before these rows is damaged")


def _is_in(path: str, names: set[str]) -> bool:
    """Tell whether a path is that of a column, whose name may have dots, or leads into one."""
    words = path.split(".")
    return any(".".join(words[:count]) in names for count in range(1, len(words) + 1))


def _typed(table: pa.Table, first: int, columns: Columns) -> Parsed:
    """Return rows in the types of the plan. Model columns of other types than text stay as they are in the file."""
    kept = columns.kept
    if columns.typed:
        own = [name for name in columns.typed.columns if name in table.column_names]
        inputs = table.select(own).to_struct_array() if own else pa.array([{}] * len(table))
        there = columns.inputs.names
        form = pa.struct([columns.inputs.field(n) if n in there else table.schema.field(n) for n in own])
    else:
        inputs, form = table[columns.text], pa.string()
    whole = pa.table([inputs, *(table[name] for name in kept.names)], names=[INPUT, *kept.names])
    found, reasons = cast(whole, pa.schema([pa.field(INPUT, form), *kept]))
    rows = np.delete(np.arange(first, first + len(table)), list(reasons))
    found = found.add_column(0, ROW, pa.array(rows, pa.int64()))
    bad = dict(zip((first + n for n in reasons), reasons.values(), strict=True))
    if not columns.typed and found[INPUT].null_count:
        missing = found[INPUT].is_null().to_numpy()
        bad |= dict.fromkeys(found[ROW].to_numpy()[missing].tolist(), f"no value in column {columns.text!r}")
        found = found.filter(pa.array(~missing))
    return found, [_bad_row(row, bad[row], table.slice(row - first, 1), kept) for row in sorted(bad)]


def _bad_row(number: int, why: str, row: pa.Table, kept: pa.Schema) -> BadRow:
    values = {}
    for field in kept:
        with suppress(pa.ArrowException, UnicodeDecodeError):
            [values[field.name]] = row[field.name].cast(field.type).to_pylist()
    return BadRow(number, why, raw=as_json(row), kept=values)


def as_json(row: pa.Table) -> bytes | None:
    """Return the columns of a row as JSON, None for values that JSON does not have."""
    try:
        texts = [one.cast(pa.string()) if types.is_temporal(one.type) else one for one in row.columns]
        [found] = pa.table(texts, row.column_names).to_pylist()
        return json.dumps(found, ensure_ascii=False, default=_in_json).encode()
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None


def _in_json(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
