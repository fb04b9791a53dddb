"""The type that holds the values of two types unchanged, or that there is none."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyarrow import types

# Of all whole numbers that Parquet can hold.
WHOLE = pa.decimal128(38, 0)
_UNITS = ("s", "ms", "us", "ns")


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both, unchanged. Raises ArrowTypeError when there is none."""
    if a.equals(b) or types.is_null(b):
        return a
    if types.is_null(a):
        return b
    for rule in (_common_numbers, _common_decimals, common_texts, _common_times, _common_nested, _common_fixed):
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


def without_views(form: pa.DataType) -> pa.DataType:
    """Return the type with texts and bytes in place of views of them, which pyarrow cannot pick rows from."""
    if types.is_string_view(form):
        return pa.string()
    if types.is_binary_view(form):
        return pa.binary()
    if types.is_struct(form):
        return pa.struct([field.with_type(without_views(field.type)) for field in form])
    if types.is_map(form):
        return pa.map_(without_views(form.key_type), without_views(form.item_type))
    if types.is_list(form) or types.is_large_list(form):
        item = form.value_field.with_type(without_views(form.value_type))
        return pa.list_(item) if types.is_list(form) else pa.large_list(item)
    return form


def is_number(form: pa.DataType) -> bool:
    """Tell whether values of a type are numbers."""
    return bool(types.is_integer(form) or types.is_floating(form) or form.equals(WHOLE))


def _common_numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if not is_number(a) or not is_number(b):
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
    # Not the other way round: a column of whole numbers takes fractions, and no type holds these and decimals.
    if types.is_decimal(a) and a.scale and types.is_integer(b):
        b = pa.decimal128(20 if b.bit_width == 64 else 10, 0)
    if not types.is_decimal(a) or not types.is_decimal(b):
        return None
    scale = max(a.scale, b.scale)
    precision = scale + max(a.precision - a.scale, b.precision - b.scale)
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def common_texts(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type for texts or bytes of both kinds, None where there is none."""
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    raw = (types.is_binary, types.is_large_binary, types.is_binary_view)
    for kinds, large in ((texts, pa.large_string()), (raw, pa.large_binary())):
        if any(kind(a) for kind in kinds) and any(kind(b) for kind in kinds):
            return large
    return None


def _common_times(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if types.is_timestamp(a) and types.is_timestamp(b) and (a.tz is None) == (b.tz is None):
        # Another zone is another way to write the same moment.
        return pa.timestamp(_unit(a, b), a.tz)
    if types.is_duration(a) and types.is_duration(b):
        return pa.duration(max(a.unit, b.unit, key=_UNITS.index))
    if types.is_time(a) and types.is_time(b):
        unit = max(a.unit, b.unit, key=_UNITS.index)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def _unit(a: pa.DataType, b: pa.DataType) -> str:
    """Return the unit for timestamps: the finer one, but nanoseconds only for a column that began with them.

    They end in the year 2262, and what is far away, as "never" is in most databases, would not fit any more.
    """
    finer: str = max(a.unit, b.unit, key=_UNITS.index)
    return "us" if finer == "ns" != a.unit else finer


def _common_fixed(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type for bytes of one length and others."""
    raw = (types.is_fixed_size_binary, types.is_binary, types.is_large_binary)
    both = all(any(is_raw(form) for is_raw in raw) for form in (a, b))
    return pa.large_binary() if both and any(map(types.is_large_binary, (a, b))) else pa.binary() if both else None


def _common_nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if types.is_struct(a) and types.is_struct(b):
        ours, theirs = {f.name: f.type for f in a}, {f.name: f.type for f in b}
        # In one order, whichever of them came first.
        names = list(ours) if ours.keys() == theirs.keys() else sorted(ours.keys() | theirs.keys())
        return pa.struct([(n, common(ours.get(n, pa.null()), theirs.get(n, pa.null()))) for n in names])
    if types.is_map(a) and types.is_map(b):
        return pa.map_(common(a.key_type, b.key_type), common(a.item_type, b.item_type))
    if _is_list(a) and _is_list(b):
        large = types.is_large_list(a) or types.is_large_list(b)
        return (pa.large_list if large else pa.list_)(common(a.value_type, b.value_type))
    return None


def _is_list(form: pa.DataType) -> bool:
    return bool(types.is_list(form) or types.is_large_list(form) or types.is_fixed_size_list(form))
