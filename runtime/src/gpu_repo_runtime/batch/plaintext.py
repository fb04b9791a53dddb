"""Columns of times as columns of text, and keys of maps as texts, for the formats that know no others.

Python has no room for times that are far away or finer than microseconds, so none of its objects is made of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_CLOCK = {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
# Of the years that Arrow has words for. Of others it says that they are out of range, or, with a zone, another year.
_FIRST, _LAST = (int(np.datetime64(day, "D").astype(np.int64)) for day in ("-32000-01-01", "32000-12-31"))

Key = Callable[[Any], str]


def in_text(array: pa.Array, key: Key) -> pa.Array:
    """Return a column with each time in it as text, each duration as a whole number, and keys of maps as texts.

    key: returns the text for a key of another type, which is an object of Python. A zone that the machine does not know
    is written as UTC.
    """
    form = array.type
    if types.is_timestamp(form):
        return _moments(array)
    if types.is_date(form):
        return _days(array.cast(pa.date32()).cast(pa.int32()))
    if types.is_duration(form):
        return array.cast(pa.int64())
    if types.is_time(form):
        return array.cast(pa.string())
    return _nested(array, key) if types.is_nested(form) and has_others(form) else array


def has_others(form: pa.DataType) -> bool:
    """Tell whether something in a type is to be changed."""
    if types.is_map(form) or types.is_temporal(form):
        return True
    return types.is_nested(form) and any(has_others(form.field(number).type) for number in range(form.num_fields))


def _nested(array: pa.Array, key: Key) -> pa.Array:
    form = array.type
    mask = array.is_null()
    if types.is_struct(form):
        parts = [in_text(part, key) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, [field.name for field in form], mask=mask)
    lengths = pc.fill_null(pc.list_value_length(_as_list(array)), 0).to_numpy(zero_copy_only=False)
    begins = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    items = _as_list(array).flatten()
    if types.is_map(form):
        keys, values = items.flatten()
        return pa.MapArray.from_arrays(begins, _keys(in_text(keys, key), key), in_text(values, key), mask=mask)
    return pa.ListArray.from_arrays(begins, in_text(items, key), mask=mask)


def _as_list(array: pa.Array) -> pa.Array:
    form = array.type
    if not types.is_map(form):
        return array
    return array.cast(pa.list_(pa.struct([("key", form.key_type), ("value", form.item_type)])))


def _keys(keys: pa.Array, key: Key) -> pa.Array:
    if types.is_string(keys.type) or types.is_large_string(keys.type):
        return keys.cast(pa.string())
    return pa.array([one if isinstance(one, str) else key(one) for one in keys.to_pylist()], pa.string())


def _moments(array: pa.Array) -> pa.Array:
    unit, zone = array.type.unit, array.type.tz
    numbers = array.cast(pa.int64())
    days = np.floor_divide(numbers.fill_null(0).to_numpy(), _DAY[unit])
    far = (days < _FIRST) | (days > _LAST)
    try:
        texts = pc.if_else(pa.array(far), pa.scalar(None, array.type), array).cast(pa.string())
    except pa.ArrowInvalid:  # the zone
        return _moments(array.cast(pa.timestamp(unit, "UTC")))
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    if not far.any():
        return texts
    clock = pa.array(numbers.fill_null(0).to_numpy() - days * _DAY[unit]).cast(pa.int64())
    clock = (clock.cast(pa.int32()) if unit in ("s", "ms") else clock).cast(_CLOCK[unit]).cast(pa.string())
    spelled = pc.binary_join_element_wise(_days(pa.array(days)), clock, "T")
    spelled = pc.binary_join_element_wise(spelled, "Z" if zone else "", "")
    return pc.if_else(pa.array(far), spelled, texts)


def _days(numbers: pa.Array) -> pa.Array:
    """Return days since 1970 as texts."""
    days = numbers.fill_null(0).to_numpy().astype(np.int64)
    far = (days < _FIRST) | (days > _LAST)
    near = pa.array(np.where(far, 0, days).astype(np.int32)).cast(pa.date32()).cast(pa.string())
    spelled = pa.array(np.datetime_as_string(days.astype("datetime64[D]"))) if far.any() else near
    return pc.if_else(numbers.is_null(), pa.scalar(None, pa.string()), pc.if_else(pa.array(far), spelled, near))
