"""Types of columns that may grow while the job runs, and values that fit into them without being changed.

A whole number is exact beside fractions up to 2**53. So a column whose first numbers are whole ones takes fractions
later, and its type becomes double; one that begins with larger whole numbers, as ids do, is `exact`: it takes larger
ones, and no fractions. What fits depends on the first rows and the value alone, never on its neighbours.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .times import check_times, holds_times

# What pyarrow and Python raise when values do not fit a column.
UNFIT = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
LARGEST = 2**53
WHOLE = pa.decimal128(38, 0)
_EXACT = {b"exact": b"yes"}
_DECLARED = {b"declared": b"yes"}
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
_IN_VECTORS = _FRACTIONS | _NUMBERS
_UNITS = ("s", "ms", "us", "ns")


def infer(values: Iterable[Any]) -> tuple[pa.DataType, bool]:
    """Return the type of a column from its first values, and whether it is exact. Where they differ the first counts.

    Raises one of UNFIT when there is no such column.
    """
    given = [value for value in values if value is not None]
    if not given:
        return pa.null(), False
    if {getattr(value, "dtype", None) for value in given} == {np.dtype(np.uint64)} and not np.ndim(given[0]):
        return pa.uint64(), True
    some = [_plain(value) for value in given]
    kinds = set(map(type, some))
    if kinds == {int, float}:
        kinds = {float if all(isinstance(v, float) or abs(v) <= LARGEST for v in some) else type(some[0])}
    if kinds == {int}:
        return _whole_type(some), any(abs(v) > LARGEST for v in some if isinstance(v, int))
    if kinds == {float}:
        return pa.float64(), False
    if len(kinds) == 1:
        return pa.array(some).type, False
    return infer(some[:1])


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


def column(values: list[Any], field: pa.Field) -> pa.Array:
    """Return values of Python as a column: of the type of the field, or of a wider one where they need it.

    Raises one of UNFIT when one of the values would be changed. It does so for many exactly when it does for one.
    """
    form, exact = field.type, _is_exact(field)
    if field.metadata and _DECLARED.keys() <= field.metadata.keys():
        return _finite(values, pa.array(values, form))
    kinds = set(map(type, values))
    if kinds <= _SURE.get(form, set()) and form != WHOLE:
        try:
            return within(pa.array(values, form), field)
        except UNFIT:
            pass
    if _is_vector(form):
        return _vectors(values, form, kinds)
    values = list(map(_plain, values))
    kinds = set(map(type, values)) - {_NONE}
    if not kinds:
        return pa.nulls(len(values), form)
    if kinds == {int} and types.is_null(form):
        return pa.array(values, _whole_type(values))
    if kinds <= {int, float} and (_is_number(form) or types.is_null(form)):
        return _numbers(values, form, exact)
    found = pa.array(values)
    if holds_times(found.type):
        check_times(values)
    if not types.is_nested(found.type) and len(kinds) > 1:
        raise TypeError(f"values of {len(kinds)} kinds where it held {form} at first")
    target = common(form, found.type)
    if is_empty(target):
        raise TypeError("an empty object, which has no columns")
    return _cast(found, target)


def is_empty(form: pa.DataType) -> bool:
    """Tell whether there are objects without any key in a type, for which Parquet has no columns."""
    if types.is_struct(form):
        return form.num_fields == 0 or any(is_empty(field.type) for field in form)
    return types.is_list(form) and is_empty(form.value_type)


def within(array: pa.Array | pa.ChunkedArray, field: pa.Field) -> Any:
    """Return the column. Raises ValueError when it holds a number beyond what it may become together with fractions."""
    if types.is_integer(array.type) and array.type.bit_width == 64 and not _is_exact(field):
        low, high = extremes(array)
        if low < -LARGEST or high > LARGEST:
            raise ValueError(_too_large(low if low < -LARGEST else high))
    return array


def extremes(array: pa.Array | pa.ChunkedArray) -> tuple[Any, Any]:
    """Return the smallest and the largest number of a column, zeros where it has none."""
    found = pc.min_max(array)
    return found["min"].as_py() or 0, found["max"].as_py() or 0


def fitting(array: pa.ChunkedArray, field: pa.Field) -> tuple[pa.ChunkedArray, pa.ChunkedArray | None]:
    """Return a column that was read with a type of its own, cast to a common one, and which rows are bad (None: none).

    The values of bad rows become null. Raises an ArrowException when there is no common type.
    """
    form, exact = field.type, _is_exact(field)
    if types.is_dictionary(array.type):
        # A cast would refuse all for one that is no UTF-8.
        array = pa.chunked_array([chunk.dictionary_decode() for chunk in array.chunks], array.type.value_type)
    # Polars and pandas have other words for text; a part is small enough for any of them.
    target, bad = (form if _common_texts(form, array.type) else common(form, array.type)), None
    if types.is_integer(form) and types.is_floating(array.type) and exact:
        bad = pc.or_(pc.not_equal(array, pc.floor(array)), pc.greater(pc.abs(array), float(LARGEST)))
        bad = pc.or_(bad, pc.is_nan(array))
        target = form if form.bit_width == 64 else pa.int64()
    elif types.is_integer(array.type) and array.type.bit_width == 64 and not exact and _is_number(form):
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
    return (array if array.type.equals(target) else array.cast(target)), bad


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both, unchanged. Raises ArrowTypeError when there is none."""
    if a.equals(b) or types.is_null(b):
        return a
    if types.is_null(a):
        return b
    for rule in (_common_numbers, _common_decimals, _common_texts, _common_times, _common_nested):
        found = rule(a, b)
        if found is not None:
            return found
    raise pa.ArrowTypeError(f"{b} where it held {a} at first")


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema with the common type of each column. Raises ArrowTypeError with the column's name."""

    def join(a: pa.Schema, b: pa.Schema) -> pa.Schema:
        fields = []
        for name in a.names:
            try:
                fields.append(pa.field(name, common(a.field(name).type, b.field(name).type)))
            except pa.ArrowTypeError as error:
                raise pa.ArrowTypeError(f"column {name!r} holds {error}") from None
        return pa.schema(fields)

    return reduce(join, schemas)


def together(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return tables as one, their columns of the common types of all and of the schema."""
    found = [table.schema for table in tables if not table.schema.equals(schema)]
    if not found:
        return pa.concat_tables(tables) if tables else schema.empty_table()
    whole = common_schema([schema, *found])
    return pa.concat_tables([table.cast(whole) for table in tables])


def _plain(value: Any) -> Any:
    """Return arrays and scalars of NumPy as lists and numbers of Python. Raises TypeError for what has no order."""
    if isinstance(value, set | frozenset):
        raise TypeError("a set has no order: make it a sorted list")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "mM":
        return _in_microseconds(value)
    return value.tolist() if hasattr(value, "tolist") else value


def _in_microseconds(value: Any) -> Any:
    """Return times of NumPy as Python's. Raises ValueError where these cannot hold them; NumPy would make numbers."""
    found = value.astype(f"{value.dtype.kind}8[us]")
    if not np.array_equal(found.astype(value.dtype), value, equal_nan=True):
        raise ValueError("a time with parts of a microsecond")
    return found.tolist()


def _whole_type(values: list[Any]) -> pa.DataType:
    whole = [value for value in values if isinstance(value, int)]
    low, high = min(whole), max(whole)
    if low >= -(2**63) and high < 2**63:
        return pa.int64()
    return pa.uint64() if low >= 0 and high < 2**64 else WHOLE


def _is_exact(field: pa.Field) -> bool:
    return field.metadata is not None and _EXACT.keys() <= field.metadata.keys()


def _is_number(form: pa.DataType) -> bool:
    return bool(types.is_integer(form) or types.is_floating(form) or form.equals(WHOLE))


def _is_vector(form: pa.DataType) -> bool:
    return bool(types.is_list(form) and types.is_floating(form.value_type))


def _too_large(value: int) -> str:
    return f"{value}, too large to be exact beside fractions"


def _numbers(values: list[Any], form: pa.DataType, exact: bool) -> pa.Array:
    """Return numbers as a column: whole ones, or double where one has a fraction and the column is not exact."""
    if types.is_floating(form) or not exact:
        for value in values:
            if isinstance(value, int) and abs(value) > LARGEST:
                raise ValueError(_too_large(value))
        if not types.is_floating(form) and float not in set(map(type, values)):
            return _cast(pa.array(values, pa.int64()), common(form, pa.int64()))
        return pa.array(values, pa.float64())
    for value in values:
        if isinstance(value, float) and not (value.is_integer() and abs(value) <= LARGEST):
            raise ValueError(f"{value} in a column of whole numbers beyond {LARGEST}")
    whole = [None if value is None else int(value) for value in values]
    found = _whole_type([value for value in whole if value is not None])
    target = form if types.is_integer(form) and form.bit_width == 64 else pa.int64()
    try:
        return pa.array(whole, target)
    except (OverflowError, pa.ArrowException):
        return pa.array(whole, common(form, found) if found.equals(form) else WHOLE)


def _vectors(values: list[Any], form: pa.DataType, kinds: set[type]) -> pa.Array:
    """Return lists of numbers; their items become those of the column's type, which is what lists of floats do."""
    if not kinds <= {list, tuple, _NONE}:
        if not kinds <= {list, tuple, np.ndarray, _NONE}:
            values = list(map(_plain, values))
        dtypes = {value.dtype.kind for value in values if isinstance(value, np.ndarray)}
        if not dtypes <= set("fiu"):
            raise TypeError("a list that does not hold numbers")
    items = set(map(type, chain.from_iterable(v for v in values if isinstance(v, list | tuple))))
    if not items <= _IN_VECTORS:
        strange = min(kind.__name__ for kind in items - _IN_VECTORS)
        raise TypeError(f"a list with {strange} where it held {form} at first")
    return _finite(values, pa.array(values, form))


def _finite(values: list[Any], array: pa.Array) -> pa.Array:
    """Return the column. Raises ValueError when a number became infinite, which float32 makes of large ones."""
    if infinities(array) and infinities(array) != infinities(pa.array([_plain(value) for value in values])):
        raise ValueError("a number too large for float32")
    return array


def infinities(array: pa.Array | pa.ChunkedArray) -> int:
    """Return how many infinite numbers there are in a column, also in its lists and objects."""
    form = array.type
    if types.is_floating(form):
        return int(pc.sum(pc.is_inf(array)).as_py() or 0)
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


def _common_numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not _is_number(a) or not _is_number(b):
        return None
    if types.is_floating(a) and types.is_floating(b):
        return a if a.bit_width > b.bit_width else b
    if types.is_floating(a) or types.is_floating(b):
        return None if WHOLE in (a, b) else pa.float64()
    if WHOLE in (a, b):
        return WHOLE
    if types.is_signed_integer(a) == types.is_signed_integer(b):
        return a if a.bit_width > b.bit_width else b
    signed, unsigned = (a, b) if types.is_signed_integer(a) else (b, a)
    if unsigned.bit_width == 64:
        return WHOLE
    return signed if signed.bit_width > unsigned.bit_width else {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}[
        unsigned.bit_width
    ]  # fmt: skip


def _common_decimals(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not types.is_decimal(a) or not types.is_decimal(b):
        return None
    scale = max(a.scale, b.scale)
    precision = scale + max(a.precision - a.scale, b.precision - b.scale)
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def _common_texts(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    raw = (types.is_binary, types.is_large_binary, types.is_binary_view)
    for kinds, large in ((texts, pa.large_string()), (raw, pa.large_binary())):
        if any(kind(a) for kind in kinds) and any(kind(b) for kind in kinds):
            return large
    return None


def _common_times(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if types.is_timestamp(a) and types.is_timestamp(b) and (a.tz is None) == (b.tz is None):
        # Another zone is another way to write the same moment.
        return pa.timestamp(max(a.unit, b.unit, key=_UNITS.index), a.tz)
    if types.is_duration(a) and types.is_duration(b):
        return pa.duration(max(a.unit, b.unit, key=_UNITS.index))
    if types.is_time(a) and types.is_time(b):
        unit = max(a.unit, b.unit, key=_UNITS.index)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def _common_nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if types.is_struct(a) and types.is_struct(b):
        ours, theirs = {f.name: f.type for f in a}, {f.name: f.type for f in b}
        # In one order, whichever of them came first.
        names = list(ours) if ours.keys() == theirs.keys() else sorted(ours.keys() | theirs.keys())
        return pa.struct([(n, common(ours.get(n, pa.null()), theirs.get(n, pa.null()))) for n in names])
    if types.is_list(a) and types.is_list(b):
        return pa.list_(common(a.value_type, b.value_type))
    return None
