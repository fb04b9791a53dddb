"""Columns of the input and their types: decided once, from all Parquet footers or from the first rows of text.

A later value that does not fit its column is a bad row. Lists and objects of JSON are kept as JSON text.
"""

import datetime
import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .exits import BadInput

# A column with null for values that do not fit, and of these the place and why.
Fitted = tuple[pa.Array, dict[int, str]]
Found = TypeVar("Found")
# What pyarrow and Python raise when values do not fit a column.
UNFIT = (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
PYTHON_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.timedelta: pa.duration("us"),
}
DECLARED = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_JSON = {b"json": b"yes"}
# The types that columns of JSON may have: those of Python's values, of which a column has one or none.
_KINDS: list[tuple[pa.DataType, set[type]]] = [
    (pa.string(), {str}),
    (pa.int64(), {int}),
    (pa.float64(), {int, float}),
    (pa.bool_(), {bool}),
]


@dataclass(frozen=True)
class Field:
    """A field of ``Input`` and its column.

    key: its alias or name. kind: "scalar", "text" (an empty one too), "bytes", "nested" (JSON in text files), "other".
    """

    key: str
    kind: str
    required: bool = True
    nullable: bool = False
    column: str = ""
    name: str = ""


@dataclass(frozen=True)
class Columns:
    """The columns to read: `text` goes to the model, the `kept` ones go to the output as they are.

    fields: those of an ``Input`` that is not a text; `text` is "" then. Without fields, a line of JSON Lines is an
    input. types: of the columns of the fields, in Parquet.
    """

    text: str
    kept: pa.Schema
    fields: tuple[Field, ...] = ()
    types: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def own(self) -> list[str]:
        """Return the names of the columns that make inputs, each once."""
        return [self.text] if self.text else list(dict.fromkeys(field.column for field in self.fields))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file must contain."""
        optional = {field.column for field in self.fields if not field.required}
        return [name for name in self.names if name not in optional or name in self.kept.names]

    @property
    def names(self) -> list[str]:
        """Return the names of all columns to read, each once."""
        return list(dict.fromkeys([*self.own, *self.kept.names]))

    def check(self, where: str, there: Sequence[str], error: type[Exception] = BadInput) -> None:
        """Raise an error where a column is missing among those of a file, or there twice."""
        for one in self.names:
            if one not in there and one in self.required:
                hint = f"; --columns {one}=NAME names another" if one in [field.key for field in self.fields] else ""
                raise error(f"{where}: no column {one!r}; there are {listed(there)}{hint}")
            if (times := list(there).count(one)) > 1:
                raise error(f"{where}: {times} columns {one!r}: which one is meant?")


def listed(names: Collection[str]) -> str:
    """Return the names of columns, with the option that separates them where the file has another delimiter."""
    mark = next((one for one in ";\t|" if any(one in name for name in names)), "")
    return (", ".join(names) or "none") + (f" (--delimiter {mark!r} separates them)" if mark else "")


def by_halves(
    values: Any, convert: Callable[[Any], Found], why: Callable[[Exception], str]
) -> tuple[list[Found], dict[int, str]]:
    """Convert values together. Where that fails convert halves, until the values that do not fit are alone.

    Returns what was converted, in order, and of the values that do not fit the place and why. convert: raises one of
    UNFIT.
    """
    try:
        return [convert(values)], {}
    except UNFIT as error:
        if len(values) == 1:
            return [], {0: why(error)}
    middle = len(values) // 2
    first, bad = by_halves(values[:middle], convert, why)
    second, more = by_halves(values[middle:], convert, why)
    return first + second, bad | {middle + place: reason for place, reason in more.items()}


def fitted(values: Any, field: pa.Field, convert: Callable[[Any, pa.DataType], pa.Array]) -> Fitted:
    """Return values as a column, with null for those that do not fit, and of these the place and why."""
    pieces, bad = by_halves(values, lambda some: convert(some, field.type), partial(_unfit, field))
    column = pieces[0] if len(pieces) == 1 else pa.concat_arrays([pa.nulls(0, field.type), *pieces])
    if bad:
        place = count()
        column = column.take(pa.array([None if n in bad else next(place) for n in range(len(values))], pa.int64()))
    return column, bad


def _unfit(field: pa.Field, error: Exception) -> str:
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        return f"column {field.name!r} is not UTF-8"
    return f"column {field.name!r} is not of its type, {field.type}: --types {field.name}=string keeps it as text"


# JSON Lines


def json_field(name: str, values: Iterable[Any]) -> pa.Field:
    """Return the column that the first values of JSON begin; it contains JSON texts where they are of several kinds."""
    kinds = {type(value) for value in values if value is not None}
    for form, takes in _KINDS:
        if kinds and kinds <= takes:
            return pa.field(name, form)
    return pa.field(name, pa.string(), metadata=_JSON if kinds else None)


def json_column(values: Sequence[Any], field: pa.Field) -> Fitted:
    """Return values of JSON as a column."""
    if field.metadata:
        values = [None if one is None else json.dumps(one, ensure_ascii=False) for one in values]
        field = field.remove_metadata()
    if types.is_temporal(field.type):
        texts = [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
        return text_column(pa.array(texts, pa.string()), field)
    return fitted(values, field, exact)


def exact(values: Sequence[Any], form: pa.DataType) -> pa.Array:
    """Return Python's values as a column. Raises one of UNFIT where one of them would be changed."""
    found = pa.array(values, form)
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and PYTHON_TYPES.get(*kinds) == form:
        return found
    with np.errstate(over="ignore"):  # a number that float32 does not hold is not the same
        fits = all(map(_same, values, found.to_pylist()))
    if not fits:
        raise ValueError(f"a value that {form} cannot hold as it is")
    return found


def _same(given: Any, found: Any) -> bool:
    if isinstance(given, dict):
        held = found if isinstance(found, dict) else dict(found)
        return all(_same(one, held.get(key)) for key, one in given.items() if one is not None)
    if isinstance(given, list):
        return len(given) == len(found) and all(map(_same, given, found))
    if isinstance(given, float) and isinstance(found, float):
        is_float32 = np.float32(given) == found and not math.isinf(found)
        return found == given or is_float32 or (given != given and found != found)
    kinds = (bool, str, datetime.date)
    same_kind = all(isinstance(given, kind) is isinstance(found, kind) for kind in kinds)
    return given is None or (same_kind and given == found)


def is_utf8(text: str) -> bool:
    """Tell whether a text has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# CSV


def text_field(name: str, cells: Sequence[str]) -> pa.Field:
    """Return the column that the first cells of a CSV file begin.

    Whole numbers are int64, other numbers double, true and false bool; anything else is text, such as a number with
    leading zeros, a date, or a number that its type would round.
    """
    some = pa.array([cell for cell in cells if cell], pa.string())
    for form in (pa.int64(), pa.float64(), pa.bool_()):
        with suppress(*UNFIT):
            if len(some) and len(_as_written(some, form)):
                return pa.field(name, form)
    return pa.field(name, pa.string())


def empty_as_null(cells: pa.Array) -> pa.Array:
    """Return cells of text without the empty ones."""
    return pc.if_else(pc.equal(cells, ""), None, cells)


def text_column(cells: pa.Array, field: pa.Field) -> Fitted:
    """Return cells of text as a column. An empty cell is null, and in a column of text the empty text."""
    return (cells, {}) if types.is_string(field.type) else fitted(empty_as_null(cells), field, _as_written)


def _as_written(cells: pa.Array, form: pa.DataType) -> pa.Array:
    """Return cells in a type. Raises one of UNFIT where pyarrow cannot read one of them or changes it."""
    found, fits = cells.cast(form), None
    if types.is_integer(form):
        fits = pc.equal(found.cast(pa.string()), cells)
    elif types.is_floating(form):
        # Whole numbers that are too long for a double, leading zeros, NaN and what is infinite.
        changed = pc.match_substring_regex(cells, "^[+-]?([0-9]{16,}|0[0-9].*)$")
        fits = pc.and_(pc.is_finite(found), pc.invert(changed))
    elif types.is_boolean(form):
        fits = pc.match_substring_regex(cells, "^(true|false)$", ignore_case=True)
    if fits is not None and pc.all(fits).as_py() is False:
        raise ValueError(f"a cell that {form} changes")
    return found


# Parquet


def common_field(name: str, schemas: Sequence[pa.Schema]) -> pa.Field:
    """Return the type of a column of Parquet files, as pyarrow joins them. Raises BadInput where there is none."""
    fields = [schema.field(name) for schema in schemas if name in schema.names]
    try:
        plain = [pa.schema([field.with_type(_plain(field.type))]) for field in fields]
        return pa.unify_schemas(plain, promote_options="permissive").field(0)
    except pa.ArrowException as error:
        raise BadInput(
            f"column {name!r} has no common type in the input: {' '.join(str(error).split())}; for a kept "
            f"column, --types {name}=... sets one"
        ) from None


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


def as_type(values: pa.Array, form: pa.DataType) -> pa.Array:
    """Return a column in another type. Raises one of UNFIT where a value does not fit."""
    found = values.cast(form)
    found.validate(full=True)
    return found
