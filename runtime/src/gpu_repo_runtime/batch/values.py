"""Values of Python and NumPy as a column of a type that is known, or of a wider one, none of them changed."""

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from .commontypes import WHOLE, common, is_number
from .times import check_times, holds_times
from .widening import LARGEST, UNFIT, is_declared, is_empty, is_exact, is_too_deep, plain, too_large, whole_type, within

_NONE = type(None)
_FRACTIONS: set[type] = {float, np.float64, np.float32, np.float16, _NONE}
_NUMBERS: set[type] = {int, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64, _NONE}
# Python's types that pyarrow puts into a column of a type without changing a value.
_SURE: dict[pa.DataType, set[type]] = {
    pa.int64(): _NUMBERS,
    pa.uint64(): _NUMBERS,
    WHOLE: _NUMBERS,
    pa.float64(): _FRACTIONS,
    pa.string(): set[type]((str, np.str_, _NONE)),
    pa.bool_(): set[type]((bool, np.bool_, _NONE)),
}
# What pyarrow would take for numbers.
_TRUTHS: set[type] = {bool, np.bool_}


def column(values: list[Any], field: pa.Field) -> pa.Array:
    """Return values of Python as a column: of the type of the field, or of a wider one where they need it.

    Raises one of UNFIT when one of the values would be changed. It does so for many exactly when it does for one.
    """
    form, exact = field.type, is_exact(field)
    if is_declared(field):
        return _finite(values, pa.array(values, form))
    kinds = set(map(type, values))
    if kinds <= _SURE.get(form, set()) and form != WHOLE:
        try:
            return within(pa.array(values, form), field)
        except UNFIT:
            pass
    if _is_vector(form):
        return _vectors(values, form, kinds)
    values = list(map(plain, values))
    kinds = set(map(type, values)) - {_NONE}
    if not kinds:
        return pa.nulls(len(values), form)
    if kinds == {int} and types.is_null(form):
        return pa.array(values, whole_type(values))
    if kinds <= {int, float} and (is_number(form) or types.is_null(form)):
        return _numbers(values, form, exact)
    found = pa.array(values)
    if holds_times(found.type):
        check_times(values)
    if not types.is_nested(found.type) and len(kinds) > 1:
        raise TypeError(f"values of {len(kinds)} kinds where it held {form} at first")
    target = common(form, found.type)
    if is_empty(target):
        raise TypeError("an empty object, which has no columns")
    if is_too_deep(target):
        raise TypeError("lists or objects too deep for Parquet")
    return _cast(found, target)


def _is_vector(form: pa.DataType) -> bool:
    return bool(types.is_list(form) and types.is_floating(form.value_type))


def _numbers(values: list[Any], form: pa.DataType, exact: bool) -> pa.Array:
    """Return numbers as a column: whole ones, or double where one has a fraction and the column is not exact."""
    if types.is_floating(form) or not exact:
        for value in values:
            if isinstance(value, int) and abs(value) > LARGEST:
                raise ValueError(too_large(value))
        if not types.is_floating(form) and float not in set(map(type, values)):
            return _cast(pa.array(values, pa.int64()), common(form, pa.int64()))
        return pa.array(values, pa.float64())
    for value in values:
        if isinstance(value, float) and not (value.is_integer() and abs(value) <= LARGEST):
            raise ValueError(f"{value} in a column of whole numbers beyond {LARGEST}")
    whole = [None if value is None else int(value) for value in values]
    found = whole_type([value for value in whole if value is not None])
    target = form if types.is_integer(form) and form.bit_width == 64 else pa.int64()
    try:
        return pa.array(whole, target)
    except (OverflowError, pa.ArrowException):
        return pa.array(whole, common(form, found) if found.equals(form) else WHOLE)


def _vectors(values: list[Any], form: pa.DataType, kinds: set[type]) -> pa.Array:
    """Return lists of numbers; their items become those of the column's type, which is what lists of floats do."""
    if not kinds <= {list, tuple, _NONE}:
        if not kinds <= {list, tuple, np.ndarray, _NONE}:
            values = list(map(plain, values))
        dtypes = {value.dtype.kind for value in values if isinstance(value, np.ndarray)}
        if not dtypes <= set("fiu"):
            raise TypeError("a list that does not hold numbers")
    array = pa.array(values, form)
    # To ask each number for its type takes as long as all the rest, and true can only have become 1, and false 0.
    if _holds_truths(array.flatten()):
        items = set(map(type, chain.from_iterable(v for v in values if isinstance(v, list | tuple))))
        if strange := items & _TRUTHS:
            raise TypeError(f"a list with {min(kind.__name__ for kind in strange)} where it held {form} at first")
    return _finite(values, array)


def _holds_truths(numbers: pa.Array) -> bool:
    found = numbers.to_numpy(zero_copy_only=False)
    return bool(((found == 0) | (found == 1)).any())


def _finite(values: list[Any], array: pa.Array) -> pa.Array:
    """Return the column. Raises ValueError when a number became infinite, which float32 makes of large ones."""
    if (found := infinities(array)) and found != infinities(pa.array([plain(value) for value in values])):
        raise ValueError("a number too large for float32")
    return array


def infinities(array: pa.Array | pa.ChunkedArray) -> int:
    """Return how many infinite numbers there are in a column, also in its lists and objects."""
    form = array.type
    if types.is_floating(form):
        return int(np.isinf(array.to_numpy(zero_copy_only=False)).sum())
    if not types.is_nested(form):
        return 0
    if isinstance(array, pa.ChunkedArray):
        return sum(map(infinities, array.chunks))
    if types.is_struct(form):
        return sum(map(infinities, array.flatten()))
    if types.is_map(form):
        return infinities(array.items)
    return infinities(array.flatten())


def _cast(array: pa.Array, form: pa.DataType) -> pa.Array:
    return array if array.type.equals(form) else array.cast(form)
