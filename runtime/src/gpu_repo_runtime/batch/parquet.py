"""Reader of Parquet files: their rows in the types of the plan, and the bad rows."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types
from pydantic_core import to_json

from .columns import Columns, Fitted, as_type, fitted
from .exits import BadInput
from .parts import BadRow, InputFile, Limits, Parsed, Piece
from .text import BROKEN, assembled, damage_of

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
        if not self._columns.text:
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
            batches = enumerate(self._source.iter_batches(rows, [number], self._names, use_threads=False))
            end = row + self._groups[number].num_rows
            for place, begin in enumerate(range(row, end, rows)):
                count = min(rows, end - begin)
                load = partial(self._load, batches, place, begin, count)
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

    def _load(self, batches: Iterator[tuple[int, pa.RecordBatch]], place: int, row: int, count: int) -> Parsed:
        """Return the rows of a batch. Those before it that were not read yet are passed over."""
        try:
            batch = next((one for number, one in batches if number == place), None)
            if batch is None:
                raise pa.ArrowInvalid("the rows before these are damaged")
        except BROKEN as error:
            if not self._file.blames(error):
                raise
            reason = f"the row group cannot be read: {' '.join(str(error).split())}"
            return None, [BadRow(one, reason) for one in range(row, row + count)]
        if len(batch) != count:
            raise BadInput(f"{self._file.name}: pyarrow returned {len(batch)} rows for {count} from row {row} on")
        return self._typed(pa.Table.from_batches([batch]), row)

    def _typed(self, table: pa.Table, first: int) -> Parsed:
        """Return rows in the types of the plan."""
        columns, kept = self._columns, self._columns.kept
        if not columns.text:
            own = [field for field in columns.types if field.name in table.column_names]
            found = [_column(table, field) for field in own]
            reasons = {place: why for _, bad in found for place, why in bad.items()}
            arrays, names = [array for array, _ in found], [field.name for field in own]
            inputs = pa.StructArray.from_arrays(arrays, names) if own else pa.array([{}] * len(table))
        else:
            inputs, reasons = _column(table, pa.field(columns.text, pa.string()))
            missing = np.flatnonzero(inputs.is_null().to_numpy(zero_copy_only=False)).tolist()
            reasons = dict.fromkeys(missing, f"no value in column {columns.text!r}") | reasons
        more = [_column(table, field) for field in kept]
        own_rows = partial(assembled, range(first, first + len(table)), inputs, more, kept, {}, reasons)
        return own_rows(lambda row: as_json(table.slice(row - first, 1)))


def _is_in(path: str, names: set[str]) -> bool:
    """Tell whether a path is that of a column, whose name may have dots, or leads into one."""
    words = path.split(".")
    return any(".".join(words[:count]) in names for count in range(1, len(words) + 1))


def _column(table: pa.Table, field: pa.Field) -> Fitted:
    return fitted(table[field.name].combine_chunks(), field, as_type)


def as_json(row: pa.Table) -> bytes | None:
    """Return the columns of a row as JSON, None for values that Python does not have."""
    with suppress(ValueError, OverflowError, pa.ArrowException):
        return to_json(row.to_pylist()[0], bytes_mode="base64", inf_nan_mode="constants")
    return None
