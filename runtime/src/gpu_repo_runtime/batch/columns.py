"""Types of columns: decided once, from all Parquet footers or from the first rows of text.

A later value that does not fit its column is a bad row. Lists and objects of JSON are kept as JSON text.
"""

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .parts import INPUT

# What pyarrow and Python raise when values do not fit a column.
UNFIT = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
# A double holds each whole number up to this one.
EXACT = 2**53
DECLARED = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_JSON = {b"json": b"yes"}
_TAKES: dict[pa.DataType, set[type]] = {
    pa.string(): {str},
    pa.int64(): {int},
    pa.float64(): {int, float},
    pa.bool_(): {bool},
}
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][+-]?[0-9]+)?")


# JSON Lines


def json_field(name: str, values: Iterable[Any]) -> pa.Field:
    """Return the column that the first values of JSON begin; it contains JSON texts where they are of several kinds."""
    kinds = {type(value) for value in values if value is not None}
    for form, takes in _TAKES.items():
        if kinds and kinds <= takes:
            return pa.field(name, form)
    return pa.field(name, pa.string(), metadata=_JSON if kinds else None)


def json_column(values: Sequence[Any], field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    """Return values of JSON as a column, null where one does not fit, and why: place -> reason."""
    if field.metadata:
        values = [None if one is None else json.dumps(one, ensure_ascii=False) for one in values]
        field = field.remove_metadata()
    if field.type not in _TAKES:
        texts = [None if one is None else one if isinstance(one, str) else json.dumps(one) for one in values]
        return text_column(pa.array(texts, pa.string()), field)
    bad = {n: _unfit(one, field) for n, one in enumerate(values) if one is not None and not _fits(one, field.type)}
    return pa.array([None if n in bad else one for n, one in enumerate(values)], field.type), bad


def _fits(value: Any, form: pa.DataType) -> bool:
    if type(value) not in _TAKES[form]:
        return False
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value)
    if form == pa.float64():
        return abs(value) <= EXACT if isinstance(value, int) else True
    return bool(form == pa.bool_()) or -(2**63) <= value < 2**63


def _unfit(value: Any, field: pa.Field) -> str:
    if isinstance(value, str) and field.type == pa.string():
        return f"column {field.name!r} is not UTF-8"
    words = value if isinstance(value, str) else json.dumps(value)
    return (
        f"column {field.name!r}: {words[:40]!r} is not of its type, {field.type}; "
        f"--types {field.name}=... sets another one"
    )


# CSV


def text_field(name: str, cells: Iterable[str | None]) -> pa.Field:
    """Return the column that the first cells of a CSV file begin.

    Whole numbers are int64, other numbers double, true and false bool; anything else is text, such as a number with
    leading zeros, a date, or a number that its type would round.
    """
    some = [cell for cell in cells if cell]
    for form in (pa.int64(), pa.float64(), pa.bool_()):
        if some and all(_cell(cell, form) is not None for cell in some):
            return pa.field(name, form)
    return pa.field(name, pa.string())


def text_column(cells: pa.Array, field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    """Return cells of text as a column, and of those that do not fit the place and why. An empty cell is null."""
    if types.is_string(field.type):
        return cells, {}
    cells = pc.if_else(pc.equal(cells, ""), None, cells)
    try:
        found = cells.cast(field.type)
        if _is_as_written(cells, found):
            return found, {}
    except pa.ArrowInvalid:
        pass
    texts = cells.to_pylist()
    values = [None if text is None else _cell(text, field.type) for text in texts]
    bad = {n: _unfit(text, field) for n, text in enumerate(texts) if text is not None and values[n] is None}
    return pa.array(values, field.type), bad


def _is_as_written(cells: pa.Array, found: pa.Array) -> bool:
    """Tell whether no number lost a digit or was written in a way that only pyarrow reads."""
    if types.is_integer(found.type):
        return bool(pc.all(pc.equal(found.cast(pa.string()), cells)).as_py() is not False)
    if types.is_floating(found.type):
        return bool(pc.all(pc.less(pc.abs(found), float(EXACT))).as_py() is not False)
    return not types.is_boolean(found.type)


def _cell(text: str, form: pa.DataType) -> Any:
    """Return the value of a cell, None where it does not fit the type as it is written."""
    if types.is_integer(form):
        return int(text) if _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63 else None
    if types.is_floating(form):
        found = float(text) if _NUMBER.fullmatch(text) and any(map(str.isdigit, text)) else math.inf
        return None if math.isinf(found) or (_WHOLE.fullmatch(text) and int(text) != found) else found
    if types.is_boolean(form):
        return {"true": True, "false": False}.get(text.lower())
    try:
        return pa.array([text]).cast(form)[0].as_py()
    except pa.ArrowInvalid:
        return None


# Parquet


def common_schema(schemas: Sequence[pa.Schema]) -> tuple[pa.Schema, dict[str, str]]:
    """Return one schema for Parquet files, as pyarrow joins them, and why columns have no common type: name -> reason.

    Such a column has the type of the first file.
    """
    plain = [pa.schema([field.with_type(_plain(field.type)) for field in schema]) for schema in schemas]
    if len(plain) == 1:
        return plain[0], {}
    try:
        return pa.unify_schemas(plain, promote_options="permissive"), {}
    except pa.ArrowException:
        pass
    found: dict[str, pa.Schema] = {}
    bad: dict[str, str] = {}
    for field in (field for schema in plain for field in schema):
        own = pa.schema([field])
        try:
            found[field.name] = pa.unify_schemas([found.get(field.name, own), own], promote_options="permissive")
        except pa.ArrowException as error:
            bad[field.name] = " ".join(str(error).split())
    return pa.schema([schema.field(0) for schema in found.values()]), bad


def _plain(form: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries, views and nanoseconds, which end in the year 2262."""
    if types.is_dictionary(form):
        return _plain(form.value_type)
    if types.is_timestamp(form) and form.unit == "ns":
        return pa.timestamp("us", form.tz)
    if types.is_list(form):
        return pa.list_(_plain(form.value_type))
    if types.is_struct(form):
        return pa.struct([field.with_type(_plain(field.type)) for field in form])
    views = {pa.string_view(): pa.string(), pa.large_string(): pa.string(), pa.binary_view(): pa.binary()}
    return views.get(form, form)


def cast(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows in the types of a schema, and of those that do not fit the place and why."""
    try:
        found = table.cast(schema)
        found.validate(full=True)
        return found, {}
    except (pa.ArrowException, UnicodeDecodeError) as error:
        if len(table) == 1:
            return schema.empty_table(), {0: _why(table, schema, error)}
    middle = len(table) // 2
    (first, bad), (second, more) = cast(table[:middle], schema), cast(table[middle:], schema)
    return pa.concat_tables([first, second]), bad | {middle + n: why for n, why in more.items()}


def _why(row: pa.Table, schema: pa.Schema, error: Exception) -> str:
    """Return which column of a row does not fit, and why."""
    for field in schema:
        try:
            row.select([field.name]).cast(pa.schema([field])).validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError) as own:
            words = "is not UTF-8" if "UTF8" in str(own) else f"does not fit: {' '.join(str(own).split())[:300]}"
            return f"{'the input' if field.name == INPUT else f'column {field.name!r}'} {words}"
    return " ".join(str(error).split())[:300]


def with_declared(schema: pa.Schema, declared: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the columns with the types of --types."""
    return pa.schema([pa.field(one.name, declared[one.name]) if one.name in declared else one for one in schema])


# Answers of a model


def answer_field(name: str, values: Sequence[Any]) -> pa.Field:
    """Return the column of answers whose type is not declared, as the examples show it. Raises one of UNFIT."""
    form = pa.array(list(map(plain, values))).type
    if types.is_null(form):
        raise TypeError(f"the answers contain only None under {name!r}: the type of the column is unknown")
    if types.is_list(form) and types.is_floating(form.value_type):
        form = pa.list_(pa.float32())
    return pa.field(name, form)


def answer_column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return answers as a column. Raises one of UNFIT when one of them would be changed."""
    if types.is_list(field.type) and types.is_floating(field.type.value_type):
        found = pa.array(values, field.type)
        numbers = found.flatten().to_numpy(zero_copy_only=False)
        truths = any({bool, np.bool_} & set(map(type, one)) for one in values if isinstance(one, list | tuple))
        if truths or (np.isinf(numbers).any() and _more_infinite(values, numbers)):
            raise ValueError(f"a number that {field.type} cannot hold")
        return found
    some = list(map(plain, values))
    found = pa.array(some, field.type)
    if not all(map(_same, some, found.to_pylist())):
        raise ValueError(f"a value that {field.type} cannot hold as it is")
    return found


def _more_infinite(values: Sequence[Any], found: np.ndarray) -> bool:
    """Tell whether numbers of lists have become infinite."""
    given = pa.array(values, pa.list_(pa.float64())).flatten().to_numpy(zero_copy_only=False)
    return bool(np.isinf(given).sum() != np.isinf(found).sum())


def _same(given: Any, found: Any) -> bool:
    if isinstance(given, dict):
        held = found if isinstance(found, dict) else dict(found)
        return all(_same(one, held.get(key)) for key, one in given.items() if one is not None)
    if isinstance(given, list):
        return len(given) == len(found) and all(map(_same, given, found))
    if isinstance(given, float) and isinstance(found, float):
        return found == given or np.float32(given) == found or (given != given and found != found)
    kinds = (bool, str, datetime.date)
    same_kind = all(isinstance(given, kind) is isinstance(found, kind) for kind in kinds)
    return given is None or (same_kind and given == found)


def plain(value: Any) -> Any:
    """Return arrays of NumPy as lists, and its scalars as numbers. Raises TypeError for a set, which has no order."""
    if isinstance(value, set | frozenset):
        raise TypeError("a set has no order: return a sorted list")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":
        exact = value.astype("datetime64[us]")
        if not np.all((exact == value) | np.isnat(value)):
            raise ValueError("a time with parts of a microsecond")
        value = exact
    return value.tolist() if hasattr(value, "tolist") else value
