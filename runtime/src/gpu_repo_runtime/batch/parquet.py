"""Reader of Parquet files: pieces of their row groups in the types of the plan, and the bad rows."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from .columns import cast
from .exits import BadInput
from .inputs import InputFile
from .parquetcuts import Cut, cut
from .parts import INPUT, ROW, UNCOUNTED, BadRow, Columns, Limits
from .readers import Parsed, check_there
from .textstreams import BROKEN

OPTIONS = {"coerce_int96_timestamp_unit": "us", "page_checksum_verification": True, "pre_buffer": False}
# First row, rows, the good ones (None where they were not read) and the bad ones.
Piece = tuple[int, int, pa.Table | None, list[BadRow]]


class ParquetReader:
    """Reads a file. `cut` says where its parts end, None for a file that cannot be opened."""

    def __init__(self, file: InputFile, columns: Columns, limits: Limits) -> None:
        self._file, self._columns, self._limits = file, columns, limits
        self.cut: Cut | None = None
        self._broken = ""
        try:
            self._source = pq.ParquetFile(file.open(), **OPTIONS)
        except BROKEN as error:
            if not file.blames(error):
                raise
            self._broken = f"{UNCOUNTED}the file cannot be read: {' '.join(str(error).split())}"
            return
        check_there(file.name, self._source.schema_arrow.names, columns)
        self._check_text()
        rows = self._source.metadata.num_rows
        self.rows = rows if file.most is None else min(rows, file.most)
        there = set(self._source.schema_arrow.names)
        self._names = [name for name in columns.names if name in there]
        self.cut = cut(file, self._source, self._names, limits, self.rows)

    def _check_text(self) -> None:
        if self._columns.typed:
            return
        form = self._source.schema_arrow.field(self._columns.text).type
        form = form.value_type if types.is_dictionary(form) else form
        is_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
        if not any(test(form) for test in is_text):
            raise BadInput(f"{self._file.name}: column {self._columns.text!r} holds {form}, the model needs text")

    def pieces(self, wants: Callable[[int, int], bool]) -> Iterator[Piece]:
        """Yield the rows of the file; row groups without a row that is wanted are not read."""
        if self.cut is None:
            yield 0, 1, None, [BadRow(0, self._broken, uncounted=True)]
            return
        row = 0
        for number in range(self._source.metadata.num_row_groups):
            end = min(self.rows, row + self._source.metadata.row_group(number).num_rows)
            if row < end and wants(row, end):
                yield from self._group(number, row, end)
            elif row < end:
                yield row, end - row, None, []
            row = end

    def _group(self, number: int, row: int, end: int) -> Iterator[Piece]:
        assert self.cut
        try:
            size = self.cut.pieces[number]
            for batch in self._source.iter_batches(size, [number], self._names, use_threads=False):
                table = pa.Table.from_batches([batch])[: end - row]
                if len(table):
                    yield row, len(table), *_typed(table, row, self._columns, self._limits)
                row += len(table)
        except BROKEN as error:
            if not self._file.blames(error):
                raise
            reason = f"the row group cannot be read: {' '.join(str(error).split())}"
            yield row, end - row, None, [BadRow(row, reason, end - row)]


def _typed(table: pa.Table, first: int, columns: Columns, limits: Limits) -> Parsed:
    """Return rows in the types of the plan. Model columns of other types than text stay as they are in the file."""
    kept = columns.in_files
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
    if table.nbytes > limits.row_size:
        sizes = _row_sizes(table)
        large = {
            first + n: f"the row has {sizes[n]} bytes, more than --max-row-bytes"
            for n in np.flatnonzero(sizes > limits.row_size).tolist()
        }
        bad |= large
        found = found.filter(pc.invert(pc.is_in(found[ROW], pa.array([*large], pa.int64()))))
    return found, [BadRow(row, bad[row], raw=as_json(table.slice(row - first, 1))) for row in sorted(bad)]


def _row_sizes(table: pa.Table) -> np.ndarray:
    """Return (rows,) int64: the bytes of the values of each row."""
    sizes = np.zeros(len(table), np.int64)
    for column in table.columns:
        if any(test(column.type) for test in (types.is_string, types.is_binary, types.is_large_string)):
            sizes += pc.binary_length(column).cast("int64").fill_null(0).to_numpy()
        elif types.is_nested(column.type) or types.is_dictionary(column.type):
            sizes += [column.slice(n, 1).nbytes for n in range(len(column))]
        else:
            sizes += column.nbytes // max(1, len(column))
    return sizes


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
