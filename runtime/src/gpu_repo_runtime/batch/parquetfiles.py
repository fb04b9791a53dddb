"""Parts of a Parquet file. A row group without a wanted part is not read; the others are read batch by batch."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .commontypes import is_number, without_views
from .exits import BadInput
from .inputs import REQUEST, InputFile
from .int96 import MICROSECONDS, Timestamps, columns_of
from .lines import TooLong, too_long
from .ordering import as_raw
from .parquetcuts import Cut, cut
from .parts import ROW, TEXT, UNCOUNTED, BadRow, Columns, Limits, Part, empty_table, table_schema
from .rowsizes import row_sizes
from .shapes import Taken
from .widening import fitting

# A row group is read in pieces of this size and not each of its columns as a whole; in larger ones of an object store.
BUFFER = 1 << 20


def parquet_parts(
    file: InputFile, file_index: int, columns: Columns, limits: Limits, first: int, wanted: Callable[[int], bool]
) -> Iterator[Part | int]:
    """Yield the wanted parts of a file from part `first` on, and at its end the number of its parts.

    Raises BadInput when a column is missing or of another type. A file or a row group that cannot be read is a bad row
    for all the rows in it; an error of the disk or the network is raised.
    """
    try:
        buffer = BUFFER if file.is_local else REQUEST
        source = pq.ParquetFile(
            file.open(),
            memory_map=False,
            pre_buffer=False,
            buffer_size=buffer,
            page_checksum_verification=True,
            **MICROSECONDS,
        )
        long = [name for name in columns_of(source.schema) if name in columns.names]
        times = Timestamps(file.open(), long, columns.kept)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise
        if wanted(0):
            bad = [BadRow(0, f"{UNCOUNTED}the file cannot be read: {error}", uncounted=True)]
            yield Part(file, file_index, 0, 0, 1, True, 0, empty_table(columns), bad=bad)
        yield 1
        return
    total = source.metadata.num_rows if file.most is None else min(file.most, source.metadata.num_rows)
    _check(source.schema_arrow, columns, file.name)
    parts = cut(file, source, columns.names, limits, total)
    count = len(parts.ends)
    wanted_parts = [index for index in range(first, count) if wanted(index)]
    for index, tables, bad in _read(file, source, times, columns, parts, wanted_parts):
        start, end = parts.range(index)
        table, unfit = _checked(tables, columns, limits)
        # Not held beside the table, which may be another one.
        tables.clear()
        bad = sorted(bad + unfit, key=lambda b: b.row)
        through = end / max(1, total)
        yield Part(file, file_index, index, start, end - start, index == count - 1, 0, table, through, bad)
    yield count


def _there(source: pq.ParquetFile, columns: Columns) -> list[str]:
    """Return the names of the columns that the file has: a field of an input may have a default."""
    names = set(source.schema_arrow.names)
    return [name for name in columns.names if name in names]


def _check(schema: pa.Schema, columns: Columns, name: str) -> None:
    there, required = Counter(schema.names), set(columns.required)
    for column in columns.names:
        if column not in there and column in required:
            raise BadInput(f"{name}: no column {column!r}; there are {', '.join(there)}")
        if there[column] > 1:
            raise BadInput(f"{name}: {there[column]} columns {column!r}: which one is meant?")
    if columns.typed:
        return
    form = schema.field(columns.text).type
    value = form.value_type if pa.types.is_dictionary(form) else form
    allowed = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_text(value) for is_text in allowed):
        raise BadInput(f"{name}: column {columns.text!r} holds {form}, the model needs text")


def _read(
    file: InputFile, source: pq.ParquetFile, times: Timestamps, columns: Columns, parts: Cut, wanted: list[int]
) -> Iterator[tuple[int, list[pa.Table], list[BadRow]]]:
    """Yield (index, tables, bad rows) of each wanted part; the tables have a column with the row's number."""
    total = parts.ends[-1]
    group_end = np.cumsum([source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)])
    group_end = np.minimum(group_end, total)
    pending = [(index, *parts.range(index)) for index in wanted]
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    for group, end in enumerate(group_end):
        position = int(group_end[group - 1]) if group else 0
        if not pending or end <= pending[0][1]:
            continue
        for table, broken in _read_group(file, source, times, group, columns, parts.pieces[group], position, int(end)):
            table = table.slice(0, total - position)
            size = broken.count if broken else len(table)
            while pending and position + size > pending[0][1]:
                index, first, behind = pending[0]
                start, stop = max(position, first), min(position + size, behind)
                if broken:
                    bad.append(BadRow(start, broken.reason, stop - start, raw=broken.raw))
                elif start < stop:
                    tables.append(table.slice(start - position, stop - start))
                if position + size < behind:
                    break
                pending.pop(0)
                yield index, tables, bad
                tables, bad = [], []
            position += size
    if pending:
        yield pending[0][0], tables, bad


def _read_group(
    file: InputFile,
    source: pq.ParquetFile,
    times: Timestamps,
    group: int,
    columns: Columns,
    rows: int,
    begin: int,
    end: int,
) -> Iterator[tuple[pa.Table, BadRow | None]]:
    """Yield a row group, `rows` at a time; what cannot be read of it comes last, as one bad row for all of it."""
    position = begin
    try:
        there = _there(source, columns)
        batches = source.iter_batches(rows, row_groups=[group], columns=there, use_threads=False)
        for read, fine in zip(batches, times.batches(rows, group), strict=False):
            batch, unfit = times.settled(_without_views(read), fine)
            table = pa.Table.from_batches([batch])
            numbers = pa.array(np.arange(position, position + len(table), dtype=np.int64))
            kept = [table[name] for name in columns.kept.names]
            fields = [ROW, TEXT, *columns.kept.names]
            value = _of_inputs(batch, columns.typed) if columns.typed else table[columns.text]
            whole = pa.table([pa.chunked_array([numbers]), value, *kept], names=fields)
            yield from _apart(whole, unfit, columns) if unfit else [(whole, None)]
            position += len(table)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise
        reason = " ".join(str(error).split())
        yield empty_table(columns), BadRow(position, f"the row group cannot be read: {reason}", end - position)


def _apart(table: pa.Table, unfit: dict[int, str], columns: Columns) -> Iterator[tuple[pa.Table, BadRow | None]]:
    """Yield rows in their order, those at some places as bad ones."""
    begin = 0
    for place in [*sorted(unfit), len(table)]:
        yield table.slice(begin, place - begin), None
        if place < len(table):
            row = table[ROW][place].as_py()
            yield empty_table(columns), BadRow(row, unfit[place], raw=_raw(row, table, columns))
        begin = place + 1


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = pa.schema([field.with_type(without_views(field.type)) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _of_inputs(batch: pa.RecordBatch, typed: Taken) -> pa.ChunkedArray:
    """Return the columns that make an input as one column of objects."""
    names = [name for name in typed.columns if name in batch.schema.names]
    return pa.chunked_array([pa.StructArray.from_arrays([batch.column(name) for name in names], names)])


def _checked(tables: list[pa.Table], columns: Columns, limits: Limits) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows with text in the schema of a part, and the others as bad rows."""
    if not tables:
        return table_schema(columns).empty_table(), []
    whole = pa.concat_tables(tables)
    table, bad = _fitting(whole, columns)
    long_ones: list[BadRow] = []
    sizes = _long_rows(table, columns, limits.row_size)
    if sizes.any():
        long = pa.array(sizes > 0)
        numbers = zip(table[ROW].filter(long).to_pylist(), sizes[sizes > 0].tolist(), strict=True)
        long_ones = [BadRow(row, too_long(TooLong(size))) for row, size in numbers]
        table = table.filter(pc.invert(long))
    if table[TEXT].null_count:
        missing = table.filter(pc.is_null(table[TEXT]))[ROW].to_pylist()
        bad += [BadRow(row, f"no value in {_text_of(columns)}") for row in missing]
        table = table.filter(pc.is_valid(table[TEXT]))
    try:
        table.validate(full=True)
    except pa.ArrowException:
        for name in [TEXT, *columns.kept.names]:
            broken = [_is_broken(value) for value in table[name]]
            what = (
                "the input"
                if name == TEXT and columns.typed
                else f"column {(columns.text if name == TEXT else name)!r}"
            )
            bad += [BadRow(row, f"{what} is not UTF-8") for row in table[ROW].filter(pa.array(broken)).to_pylist()]
            table = table.filter(pa.array([not b for b in broken]))
    return table, [replace(one, raw=_raw(one.row, whole, columns)) for one in bad] + long_ones


def _raw(row: int, whole: pa.Table, columns: Columns) -> bytes | None:
    """Return the columns of a row that are read, as JSON."""
    place = int(np.searchsorted(whole[ROW].to_numpy(), row))
    one = whole.slice(place, 1).combine_chunks()
    inputs = one[TEXT].chunk(0)
    fields = zip(inputs.type.names, inputs.flatten(), strict=True) if columns.typed else [(columns.text, inputs)]
    found = pa.table({**dict(fields), **{name: one[name] for name in columns.kept.names}})
    return as_raw(found.to_struct_array().combine_chunks()[0])


def _text_of(columns: Columns) -> str:
    return "the input" if columns.typed else f"column {columns.text!r}"


def _long_rows(table: pa.Table, columns: Columns, most: int) -> np.ndarray:
    """Return (rows,) int64: the bytes of each row's values where that is more than `most`, else 0."""
    sizes = np.zeros(len(table), np.int64)
    if table.nbytes > most:
        # What goes to the model and to the output is in the row once.
        again = columns.typed.columns if columns.typed else [columns.text]
        names = [TEXT, *(name for name in columns.kept.names if name not in again)]
        for name in names:
            sizes += np.concatenate([np.zeros(0, np.int64), *map(row_sizes, table[name].chunks)])
    return np.where(sizes > most, sizes, 0)


def _fitting(whole: pa.Table, columns: Columns) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows whose kept columns fit those of the plan, in a type that holds both, and the others."""
    bad: list[BadRow] = []
    arrays = [whole[ROW], whole[TEXT] if columns.typed else whole[TEXT].cast(pa.string())]
    unfit = None
    for field in columns.kept:
        if field.name == columns.text and field.type.equals(pa.string()):
            arrays.append(arrays[1])
            continue
        values = whole[field.name]
        array, strange = fitting(values, field)
        if strange is not None:
            numbers = is_number(values.type) and is_number(field.type)
            held = "a number that is not exact" if numbers else f"a value of {values.type} that does not fit"
            reason = f"column {field.name!r} holds {held} where it held {field.type} at first"
            rows = whole[ROW].filter(strange if unfit is None else pc.and_not(strange, unfit))
            bad += [BadRow(row, reason) for row in rows.to_pylist()]
            unfit = strange if unfit is None else pc.or_(unfit, strange)
        arrays.append(array)
    table = pa.table(arrays, names=[ROW, TEXT, *columns.kept.names])
    return (table if unfit is None else table.filter(pc.invert(unfit))), bad


def _is_broken(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return True
    return False
