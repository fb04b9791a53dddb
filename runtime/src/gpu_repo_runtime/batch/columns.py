"""Columns of the input and their types: decided once, from all Parquet footers or from the first rows of text.

A later value that does not fit its column is a bad row. Lists and objects of JSON are kept as JSON text.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .exits import BadInput
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


@dataclass(frozen=True)
class Field:
    """A field of ``Input`` and its column. An ``Input`` that is a value or a list is one field without a name.

    key: its alias or name. kind: "scalar", "text" (an empty one too), "bytes", "nested" (JSON in text files), "other".
    """

    key: str
    kind: str
    required: bool = True
    nullable: bool = False
    column: str = ""
    name: str = ""


@dataclass(frozen=True)
class InputColumns:
    """The columns of inputs that are not texts.

    fields: for a list of several columns one for each, in order; none where a line of JSON Lines is an input. files:
    columns with addresses of files, which are relative to `root` or to the data file.
    """

    fields: tuple[Field, ...] = ()
    files: frozenset[str] = frozenset()
    root: str | None = None

    @property
    def is_object(self) -> bool:
        """Tell whether an input has fields."""
        return any(field.key for field in self.fields)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns, each once."""
        return list(dict.fromkeys(field.column for field in self.fields))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file must contain."""
        return list(dict.fromkeys([*(one.column for one in self.fields if one.required), *self.files]))


@dataclass(frozen=True)
class Columns:
    """The columns to read: `text` goes to the model, the `kept` ones go to the output as they are.

    typed: the columns of a model whose input is not a text; `text` is "" then. inputs: their types in Parquet.
    """

    text: str
    kept: pa.Schema
    typed: InputColumns | None = None
    inputs: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def names(self) -> list[str]:
        """Return the names of all columns to read, each once."""
        own = self.typed.columns if self.typed else [self.text]
        return list(dict.fromkeys([*own, *self.kept.names]))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file must contain."""
        own = self.typed.required if self.typed else [self.text]
        return list(dict.fromkeys([*own, *self.kept.names]))

    def check(self, file: str, there: Sequence[str]) -> None:
        """Raise BadInput where a column is missing in a file, or there twice."""
        for one in self.names:
            if one not in there and one in self.required:
                raise BadInput(f"{file}: no column {one!r}; there are {listed(there)}")
            if list(there).count(one) > 1:
                raise BadInput(f"{file}: {list(there).count(one)} columns {one!r}: which one is meant?")


def listed(names: Collection[str]) -> str:
    """Return the names of columns, with the option that separates them where the file has another delimiter."""
    mark = next((one for one in ";\t|" if any(one in name for name in names)), "")
    return (", ".join(names) or "none") + (f" (--delimiter {mark!r} separates them)" if mark else "")


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
        return is_utf8(value)
    if form == pa.float64():
        return abs(value) <= EXACT if isinstance(value, int) else True
    return bool(form == pa.bool_()) or -(2**63) <= value < 2**63


def is_utf8(text: str) -> bool:
    """Tell whether a text has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unfit(value: Any, field: pa.Field) -> str:
    if isinstance(value, str) and field.type == pa.string():
        return f"column {field.name!r} is not UTF-8"
    return f"column {field.name!r} is not of its type, {field.type}: --types {field.name}=string keeps it as text"


# CSV


def text_field(name: str, cells: Sequence[str]) -> pa.Field:
    """Return the column that the first cells of a CSV file begin.

    Whole numbers are int64, other numbers double, true and false bool; anything else is text, such as a number with
    leading zeros, a date, or a number that its type would round.
    """
    some = pa.array([cell for cell in cells if cell], pa.string())
    for form in (pa.int64(), pa.float64(), pa.bool_()):
        if len(some) and _as_written(some, form) is not None:
            return pa.field(name, form)
    return pa.field(name, pa.string())


def empty_as_null(cells: pa.Array) -> pa.Array:
    """Return cells of text without the empty ones."""
    return pc.if_else(pc.equal(cells, ""), None, cells)


def text_column(cells: pa.Array, field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    """Return cells of text as a column, and of those that do not fit the place and why. An empty cell is null."""
    if types.is_string(field.type):
        return cells, {}
    found = _as_written(empty_as_null(cells), field.type)
    if found is not None:
        return found, {}
    if len(cells) == 1:
        return pa.nulls(1, field.type), {0: _unfit(cells[0].as_py(), field)}
    middle = len(cells) // 2
    (first, bad), (second, more) = text_column(cells[:middle], field), text_column(cells[middle:], field)
    return pa.concat_arrays([first, second]), bad | {middle + place: why for place, why in more.items()}


def _as_written(cells: pa.Array, form: pa.DataType) -> pa.Array | None:
    """Return cells in a type, None where pyarrow cannot read one of them or changes it."""
    try:
        found = cells.cast(form)
    except pa.ArrowInvalid:
        return None
    fits = None
    if types.is_integer(form):
        fits = pc.equal(found.cast(pa.string()), cells)
    elif types.is_floating(form):
        # Whole numbers that are too long for a double, leading zeros, NaN and what is infinite.
        changed = pc.match_substring_regex(cells, "^[+-]?([0-9]{16,}|0[0-9].*)$")
        fits = pc.and_(pc.is_finite(found), pc.invert(changed))
    elif types.is_boolean(form):
        fits = pc.match_substring_regex(cells, "^(true|false)$", ignore_case=True)
    return found if fits is None or pc.all(fits).as_py() is not False else None


# Parquet


def common_field(name: str, schemas: Sequence[pa.Schema]) -> pa.Field:
    """Return the type of a column of Parquet files, as pyarrow joins them. Raises BadInput where there is none."""
    fields = [schema.field(name) for schema in schemas if name in schema.names]
    try:
        plain = [pa.schema([field.with_type(_plain(field.type))]) for field in fields]
        return pa.unify_schemas(plain, promote_options="permissive").field(0)
    except pa.ArrowException as error:
        raise BadInput(
            f"column {name!r} has no common type in the input: {' '.join(str(error).split())}; leave it out with "
            f"--keep, or set one with --types {name}=..."
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
    for one in schema:
        try:
            row.select([one.name]).cast(pa.schema([one])).validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError) as own:
            words = "is not UTF-8" if "UTF8" in str(own) else f"does not fit: {' '.join(str(own).split())[:300]}"
            return f"{'the input' if one.name == INPUT else f'column {one.name!r}'} {words}"
    return " ".join(str(error).split())[:300]
