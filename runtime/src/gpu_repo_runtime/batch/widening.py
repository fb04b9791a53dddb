"""Types of columns that may grow while the job runs, and values that fit into them without being changed.

A whole number is exact beside fractions up to 2**53. So a column whose first numbers are whole ones takes fractions
later, and its type becomes double; one that begins with larger whole numbers, as ids do, is `exact`: it takes larger
ones, and no fractions. What fits depends on the first rows and the value alone, never on its neighbours.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .commontypes import WHOLE, common, common_texts, is_number

# What pyarrow and Python raise when values do not fit a column.
UNFIT = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
LARGEST = 2**53
# Groups of Parquet in one another.
DEEPEST = 90
_EXACT = {b"exact": b"yes"}
_DECLARED = {b"declared": b"yes"}


def infer(values: Iterable[Any]) -> tuple[pa.DataType, bool]:
    """Return the type of a column from its first values, and whether it is exact. Where they differ the first counts.

    Raises one of UNFIT when there is no such column.
    """
    given = [value for value in values if value is not None]
    if not given:
        return pa.null(), False
    if {getattr(value, "dtype", None) for value in given} == {np.dtype(np.uint64)} and not np.ndim(given[0]):
        return pa.uint64(), True
    some = [plain(value) for value in given]
    kinds = set(map(type, some))
    if kinds == {int, float}:
        kinds = {float if all(isinstance(v, float) or abs(v) <= LARGEST for v in some) else type(some[0])}
    if kinds == {int}:
        return whole_type(some), any(abs(v) > LARGEST for v in some if isinstance(v, int))
    if kinds == {float}:
        return pa.float64(), False
    if len(kinds) == 1:
        return _nested_type(some), False
    return infer(some[:1])


def _nested_type(values: list[Any]) -> pa.DataType:
    """Return the type of values of one kind: of all, or of those that share one where they differ inside."""
    try:
        form = pa.array(values).type
    except UNFIT:
        form = pa.null()
        for value in values:
            with suppress(*UNFIT):
                form = common(form, pa.array([value]).type)
        if types.is_null(form):
            raise
    if is_too_deep(form):
        raise TypeError("lists or objects too deep for Parquet")
    return form


def typed(name: str, values: Iterable[Any]) -> pa.Field:
    """Return the column that these first values begin. Raises one of UNFIT when there is no such column."""
    return field_of(name, *infer(values))


def field_of(name: str, form: pa.DataType, exact: bool) -> pa.Field:
    """Return a column of the plan. One of unsigned 64-bit or larger numbers is always exact."""
    exact = exact or form.equals(pa.uint64()) or form.equals(WHOLE)
    return pa.field(name, form, metadata=_EXACT if exact else None)


def declared(name: str, form: pa.DataType) -> pa.Field:
    """Return a column of a type that is known to hold all its values, which were checked before."""
    return pa.field(name, form, metadata=_DECLARED)


def without_notes(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the columns as they are in the output."""
    return pa.schema([(field.name, field.type) for field in fields])


def is_empty(form: pa.DataType) -> bool:
    """Tell whether there are objects without any key in a type, for which Parquet has no columns."""
    if types.is_struct(form):
        return form.num_fields == 0 or any(is_empty(field.type) for field in form)
    return types.is_list(form) and is_empty(form.value_type)


def is_too_deep(form: pa.DataType) -> bool:
    """Tell whether readers of Parquet refuse a type: pyarrow stops at 100 groups, of which a list or map has two."""
    return _depth(form) > DEEPEST


def _depth(form: pa.DataType) -> int:
    if not types.is_nested(form):
        return 1
    below = max((_depth(form.field(number).type) for number in range(form.num_fields)), default=0)
    return below + (1 if types.is_struct(form) else 2)


def within(array: pa.Array | pa.ChunkedArray, field: pa.Field) -> Any:
    """Return the column. Raises ValueError when it holds a number beyond what it may become together with fractions."""
    if types.is_integer(array.type) and array.type.bit_width == 64 and not is_exact(field):
        low, high = extremes(array)
        if low < -LARGEST or high > LARGEST:
            raise ValueError(too_large(low if low < -LARGEST else high))
    return array


def extremes(array: pa.Array | pa.ChunkedArray) -> tuple[Any, Any]:
    """Return the smallest and the largest number of a column, zeros where it has none."""
    found = pc.min_max(array)
    return found["min"].as_py() or 0, found["max"].as_py() or 0


def fitting(array: pa.ChunkedArray, field: pa.Field) -> tuple[pa.ChunkedArray, pa.ChunkedArray | None]:
    """Return a column that was read with a type of its own, cast to a common one, and which rows are bad (None: none).

    The values of bad rows become null: those that no type holds together with the column's.
    """
    form, exact = field.type, is_exact(field)
    if array.null_count == len(array):
        return pa.chunked_array([pa.nulls(len(array), form)]), None
    if types.is_dictionary(array.type):
        # A cast would refuse all for one that is not UTF-8.
        array = pa.chunked_array([chunk.dictionary_decode() for chunk in array.chunks], array.type.value_type)
    bad: Any = None
    try:
        # Polars and pandas have other words for text; a part is small enough for any of them.
        target = form if common_texts(form, array.type) else common(form, array.type)
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(array), form)]), pc.is_valid(array)
    if types.is_integer(form) and types.is_floating(array.type) and exact:
        if types.is_float16(array.type):  # for which pyarrow computes nothing
            array = array.cast(pa.float32())
        bad = pc.or_(pc.not_equal(array, pc.floor(array)), pc.greater(pc.abs(array), float(LARGEST)))
        bad = pc.or_(bad, pc.is_nan(array))
        target = form if form.bit_width == 64 else pa.int64()
    elif types.is_integer(array.type) and array.type.bit_width == 64 and not exact and is_number(form):
        bad = pc.greater(array, pa.scalar(LARGEST, array.type))
        if types.is_signed_integer(array.type):
            bad = pc.or_(bad, pc.less(array, -LARGEST))
        elif types.is_integer(form):
            target = pa.int64()
    if bad is not None:
        bad = pc.fill_null(bad, False)
        if not pc.any(bad).as_py():
            bad = None
        else:
            array = pc.if_else(bad, pa.scalar(None, array.type), array)
    if array.type.equals(target):
        return array, bad
    try:
        return array.cast(target), bad
    except pa.ArrowException:
        found, unfit = _cast_some(array.combine_chunks(), target)
        return pa.chunked_array([found]), unfit if bad is None else pc.or_(bad, unfit)


def _cast_some(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return an array cast to a type, null where a value does not fit, and where that is: halves of it, and so on."""
    try:
        return array.cast(target), pa.repeat(pa.scalar(False), len(array))
    except pa.ArrowException:
        if len(array) == 1:
            return pa.nulls(1, target), pa.array([True])
    middle = len(array) // 2
    halves = [_cast_some(half, target) for half in (array[:middle], array[middle:])]
    return pa.concat_arrays([one for one, _ in halves]), pa.concat_arrays([bad for _, bad in halves])


def is_exact(field: pa.Field) -> bool:
    """Tell whether a column takes whole numbers of any size, and no fractions."""
    return field.metadata is not None and _EXACT.keys() <= field.metadata.keys()


def is_declared(field: pa.Field) -> bool:
    """Tell whether a column's type is known to hold all its values."""
    return field.metadata is not None and _DECLARED.keys() <= field.metadata.keys()


def plain(value: Any) -> Any:
    """Return arrays and scalars of NumPy as lists and numbers of Python. Raises TypeError for what has no order."""
    if isinstance(value, set | frozenset):
        raise TypeError("a set has no order: make it a sorted list")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "mM":
        return _in_microseconds(value)
    if isinstance(value, memoryview):
        return value.tobytes()
    return value.tolist() if hasattr(value, "tolist") else value


def _in_microseconds(value: Any) -> Any:
    """Return times of NumPy as Python's. Raises ValueError where these cannot hold them; NumPy would make numbers."""
    found = value.astype(f"{value.dtype.kind}8[us]")
    if not np.array_equal(found.astype(value.dtype), value, equal_nan=True):
        raise ValueError("a time with parts of a microsecond")
    return found.tolist()


def whole_type(values: list[Any]) -> pa.DataType:
    """Return the type for the whole numbers among values."""
    whole = [value for value in values if isinstance(value, int)]
    low, high = min(whole), max(whole)
    if low >= -(2**63) and high < 2**63:
        return pa.int64()
    return pa.uint64() if low >= 0 and high < 2**64 else WHOLE


def too_large(value: int) -> str:
    """Say of a number that fractions beside it would change it."""
    return f"{value}, too large to be exact beside fractions"
