"""Timestamps of 96 bits, as Spark, Hive and Impala write them. Arrow has 64: for far years, or for nanoseconds.

Microseconds hold them, unless the first rows have parts of a microsecond: then nanoseconds do. What does not fit is a
bad row. Read as nanoseconds, which pyarrow does if nobody says otherwise, 9999-12-31 would be a day in 1816.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

MICROSECONDS = {"coerce_int96_timestamp_unit": "us"}
_MOST = (2**63 - 1) // 1000
_FIRST_ROWS = 1000
_INT96 = "INT96"


def columns_of(schema: pq.ParquetSchema) -> list[str]:
    """Return the names of the columns with such timestamps, in objects and lists too."""
    found, place = [], 0
    if not any(schema.column(number).physical_type == _INT96 for number in range(len(schema))):
        return []
    # By their places: the path of a leaf does not tell a column `a.b` from `b` in an object `a`.
    for field in schema.to_arrow_schema():
        leaves = range(place, place + _count_of_leaves(field.type))
        found += [field.name] if any(schema.column(leaf).physical_type == _INT96 for leaf in leaves) else []
        place = leaves.stop
    return found


def _count_of_leaves(form: pa.DataType) -> int:
    if isinstance(form, pa.BaseExtensionType):
        form = form.storage_type
    if not types.is_nested(form):
        return 1
    return sum(_count_of_leaves(form.field(number).type) for number in range(form.num_fields))


def with_units(schema: pa.Schema, source: Any) -> pa.Schema:
    """Return the columns of a file with the units that such timestamps have there: the first rows tell.

    source: the file, to be read from any place.
    """
    coarse, fine = pq.ParquetFile(source, **MICROSECONDS), pq.ParquetFile(source)
    names = columns_of(coarse.schema)
    for name in names:
        schema = schema.set(schema.get_field_index(name), coarse.schema_arrow.field(name))
    flat = [name for name in names if types.is_timestamp(schema.field(name).type)]
    first = [next(file.iter_batches(_FIRST_ROWS, columns=flat), None) for file in (coarse, fine)] if flat else []
    batches = [batch for batch in first if batch is not None]
    for name in flat if batches else []:
        if pc.any(_differ(*(batch[name] for batch in batches))).as_py():
            field = schema.field(name)
            schema = schema.set(schema.get_field_index(name), field.with_type(pa.timestamp("ns", field.type.tz)))
    return schema


class Timestamps:
    """The columns of 96 bits among those that are read of a file, which is opened once more for their nanoseconds.

    kept: the columns of the plan.
    """

    def __init__(self, source: Any, names: list[str], kept: pa.Schema) -> None:
        self._names = names
        self._fine = pq.ParquetFile(source, pre_buffer=False) if names else None
        self._nano = {name for name in names if name in kept.names and kept.field(name).type.equals(_nano(kept, name))}

    def batches(self, rows: int, group: int) -> Iterator[pa.RecordBatch | None]:
        """Yield what belongs to each batch of a row group of the file itself."""
        if self._fine is None:
            yield from repeat(None)
        else:
            yield from self._fine.iter_batches(rows, row_groups=[group], columns=self._names, use_threads=False)

    def settled(self, batch: pa.RecordBatch, fine: pa.RecordBatch | None) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return the batch with the timestamps of the plan's units, and the rows where these do not hold one: why."""
        bad: dict[int, str] = {}
        if fine is None:
            return batch, bad
        for name in self._names:
            place = batch.schema.get_field_index(name)
            if name in self._nano:
                bad |= dict.fromkeys(_places(_is_far(batch[name])), f"column {name!r} holds a time beyond nanoseconds")
                batch = batch.set_column(place, batch.schema.field(place).with_type(fine[name].type), fine[name])
            else:
                reason = f"column {name!r} holds a time with parts of a microsecond"
                bad |= dict.fromkeys(_places(_differ(batch[name], fine[name])), reason)
        return batch, bad


def _nano(kept: pa.Schema, name: str) -> pa.DataType:
    return pa.timestamp("ns", getattr(kept.field(name).type, "tz", None))


def _places(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()
    return found


def _is_far(coarse: pa.Array) -> pa.Array:
    numbers = coarse.cast(pa.int64())
    return pc.fill_null(pc.or_(pc.greater(numbers, _MOST), pc.less(numbers, -_MOST)), False)


def _differ(coarse: pa.Array, fine: pa.Array) -> pa.Array:
    """Tell for each row whether microseconds lose a part of its times."""
    if types.is_timestamp(coarse.type):
        near = pc.if_else(_is_far(coarse), pa.scalar(None, pa.int64()), coarse.cast(pa.int64()))
        return pc.fill_null(pc.not_equal(pc.multiply(near, 1000), fine.cast(pa.int64())), False)
    # In lists and objects, whose rows are only looked at one by one where there is something to find.
    if not any(pc.any(_differ(*both)).as_py() for both in zip(_leaves(coarse), _leaves(fine), strict=True)):
        return pa.repeat(pa.scalar(False), len(coarse))
    rows = [zip(_leaves(coarse[n : n + 1]), _leaves(fine[n : n + 1]), strict=True) for n in range(len(coarse))]
    return pa.array([any(pc.any(_differ(*both)).as_py() for both in row) for row in rows], pa.bool_())


def _leaves(array: pa.Array) -> list[pa.Array]:
    """Return the timestamps in a column of lists and objects."""
    if types.is_timestamp(array.type):
        return [array]
    if types.is_struct(array.type):
        return [leaf for field in array.flatten() for leaf in _leaves(field)]
    if types.is_map(array.type):
        return _leaves(array.keys) + _leaves(array.items)
    return _leaves(array.flatten()) if types.is_nested(array.type) else []
