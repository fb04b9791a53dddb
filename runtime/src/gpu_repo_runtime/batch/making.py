"""Inputs of an owner's model, a list or a table, made of the columns of a table or of lines of JSON."""

import json
import math
import os
import re
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from pathlib import PurePosixPath
from types import GenericAlias
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs, types
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from ..interface import BOTH_NAMES, Interface
from ..owntypes import sentence
from ..tables import Column, arrow_type
from .columns import UNFIT, InputColumns
from .inputs import open_filesystem
from .parts import InputFile
from .text import JSON

# Errors of an address, of JSON, and of a time of which Python knows no year.
_UNREADABLE = (OSError, ValueError, OverflowError, RecursionError, pa.ArrowException)
# Of them pyarrow says what pydantic says.
_PLAIN = {"float", "int", "bool", "str"}
# Settings of a class that say nothing of its values.
_NO_RULES = {"title", "validate_by_alias", "validate_by_name"}
# A number that may be larger than any double.
_HUGE = re.compile(r"[eE][+]?[0-9]{3}|[0-9]{300}")
_COMMA = re.compile(r"[+-]?[0-9.]+,[0-9]+")

# Fewer rows than these are made one by one when one of them is not an input.
FEW = 256
_FROM = {
    float: (types.is_floating, types.is_integer, types.is_decimal),
    int: (types.is_integer, types.is_floating),
    bool: (types.is_boolean,),
    str: (types.is_string, types.is_large_string, types.is_string_view),
}

# Inputs, a list or a table, and why other rows are none: place -> reason.
Made = tuple[Any, dict[int, str]]


class Maker:
    """Makes inputs. limit: the bytes that a file may have which a row leads to."""

    def __init__(self, interface: Interface, columns: InputColumns, limit: int) -> None:
        self._one, self._columns, self._limit = interface.inputs, columns, limit
        listed: Any = GenericAlias(list, (interface.input,))
        self._all: TypeAdapter[list[Any]] = TypeAdapter(listed)
        # pydantic makes doubles of the fractions in JSON, and decimals of these.
        is_exact = "'type': 'decimal'" in repr(interface.inputs.core_schema)
        self._json = json.JSONDecoder(parse_float=Decimal) if is_exact else JSON
        same = all(field.column in (field.key, field.name) for field in columns.fields)
        # A record of JSON is an input as it is; and so is its line, without reading it twice.
        self._takes_records = same and not columns.files
        self._takes_lines = self._takes_records and not is_exact

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs, and why other rows are none: place -> reason.

        values: lines of JSON, or structs of columns as they come from a table.
        """
        found, rows, bad = _as_python(values), {}, {}
        if file.format == "jsonl" and found and self._takes_lines and not any(map(_HUGE.search, found)):
            with suppress(*_UNREADABLE):
                return [self._one.validate_json(line, **BOTH_NAMES) for line in found], {}
        for place in range(len(values)):
            try:
                row = found[place] if found is not None else values[place].as_py(maps_as_pydicts="strict")
                rows[place] = self._row(row, file)
            except _UNREADABLE as error:
                bad[place] = _reason(error)
        # Values of Parquet, and of files, have their types; those of texts are in JSON.
        is_typed = file.format == "parquet" or bool(self._columns.files)
        with suppress(*_UNREADABLE):
            if is_typed:
                return self._all.validate_python([*rows.values()], **BOTH_NAMES), bad
            return self._all.validate_json(to_json([*rows.values()]), **BOTH_NAMES), bad
        made = []
        for place, row in rows.items():
            try:
                made.append(self._typed(row) if is_typed else self._one.validate_json(to_json(row), **BOTH_NAMES))
            except ValidationError as error:
                bad[place] = self._why(error)
            except _UNREADABLE as error:
                bad[place] = _reason(error)
        return made, bad

    def _typed(self, row: Any) -> Any:
        """Return the input; a null is what is not there, where a field takes none."""
        try:
            return self._one.validate_python(row, **BOTH_NAMES)
        except ValidationError as error:
            if not _without_nulls(row, error):
                raise
            return self._one.validate_python(row, **BOTH_NAMES)

    def _row(self, row: Any, file: InputFile) -> Any:
        """Return what is validated of a line of JSON, or of a row of a table."""
        columns = self._columns
        if file.format == "jsonl":
            row = self._json.decode(row)
            if columns.fields and not isinstance(row, dict):
                raise ValueError(f"expected a JSON object, got {type(row).__name__}")
            if self._takes_records:
                return row
        elif file.format != "parquet":
            row = self._of_cells(row)
        row = row | {
            one.column: self._content(row[one.column], file, one.column in columns.files)
            for one in columns.fields
            if one.kind == "bytes" and one.column in row
        }
        if columns.is_object:
            return {field.key: row[field.column] for field in columns.fields if field.column in row}
        if missing := [column for column in columns.columns if column not in row]:
            raise ValueError(f"no value in column {missing[0]!r}")
        picked = [row[field.column] for field in columns.fields]
        return picked if len(picked) > 1 else picked[0]

    def _of_cells(self, row: dict[str, str | None]) -> dict[str, Any]:
        """Return the cells of a text file: an empty one contains nothing, and lists and objects are in JSON."""
        found: dict[str, Any] = {}
        for field in self._columns.fields:
            cell = row.get(field.column)
            if field.kind == "text" and cell is not None:
                found[field.column] = cell
            elif not cell:
                # Where the field has a default, it is left out.
                found |= {field.column: None} if field.required and field.nullable else {}
            elif field.kind == "nested":
                found[field.column] = self._json.decode(cell)
            else:
                if field.kind == "scalar" and _is_too_large(cell):
                    raise ValueError(f"column {field.column!r} has a number that is too large for a double")
                found[field.column] = cell
        return found

    def _content(self, value: Any, file: InputFile, is_address: bool) -> Any:
        if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
            # The images and sounds of datasets of Hugging Face.
            value, is_address = (value["path"], True) if value["bytes"] is None else (value["bytes"], False)
        if not is_address or not isinstance(value, str):
            return value
        filesystem, path = _place(value, self._columns.root, file)
        info = filesystem.get_file_info(path)
        if info.type != fs.FileType.File:
            raise ValueError(f"there is no file {value}")
        if int(info.size or 0) > self._limit:
            raise ValueError(f"the file {value} has {info.size} bytes, more than --max-row-bytes")
        with filesystem.open_input_file(path) as stream:
            return stream.read()

    def _why(self, error: ValidationError) -> str:
        text = f"invalid row: {sentence(error)}"
        first = error.errors(include_url=False, include_context=False)[0]
        if isinstance(first["input"], str) and _COMMA.fullmatch(first["input"]):
            text += "; write numbers with a decimal point, not a comma"
        if first["type"] == "missing":
            text += "; `| None = None` allows rows without it"
        if first["type"] == "base64" and not self._columns.files:
            text += "; --files says which columns hold addresses of files"
        return text


class TableMaker:
    """Makes tables whose columns are the fields of ``Input``."""

    def __init__(self, interface: Interface, columns: InputColumns, limit: int) -> None:
        assert interface.table
        self._maker, self._columns = Maker(interface, columns, limit), interface.table.columns
        self._sources = {field.name: field.column for field in columns.fields}
        input_type: Any = interface.input
        self._fields = input_type.model_fields
        is_plain = plain_fields(interface.inputs.core_schema).issuperset(one.name for one in self._columns)
        self._is_fast = is_plain and not columns.files
        self._schema = pa.schema([(one.name, arrow_type(one)) for one in self._columns])

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs as a table, and why other rows are none: place -> reason."""
        if self._is_fast and file.format != "jsonl":
            try:
                return self._cast(values), {}
            except UNFIT:
                if len(values) > FEW:
                    return self._halves(values, file)
        inputs, bad = self._maker.inputs(values, file)
        return self._of_objects(inputs, bad, len(values))

    def _halves(self, values: pa.Array, file: InputFile) -> Made:
        middle = len(values) // 2
        (first, bad), (second, more) = self.inputs(values[:middle], file), self.inputs(values[middle:], file)
        return pa.concat_tables([first, second]), bad | {middle + place: why for place, why in more.items()}

    def _of_objects(self, inputs: list[Any], bad: dict[int, str], rows: int) -> Made:
        try:
            return self._as_table(inputs), bad
        except UNFIT:
            places, found = [place for place in range(rows) if place not in bad], []
        for place, one in zip(places, inputs, strict=True):
            try:
                found.append(self._as_table([one]))
            except UNFIT as error:
                bad[place] = f"invalid row: {' '.join(str(error).split())[:300]}"
        return pa.concat_tables([self._schema.empty_table(), *found]), bad

    def _as_table(self, inputs: list[Any]) -> pa.Table:
        columns = [pa.array([getattr(one, f.name) for one in inputs], f.type) for f in self._schema]
        return pa.table(columns, schema=self._schema)

    def _cast(self, values: pa.Array) -> pa.Table:
        """Return columns in the types of the fields. Raises one of UNFIT where pydantic has to look at a row."""
        arrays = [self._column(values, column) for column in self._columns]
        return pa.table(arrays, schema=self._schema)

    def _column(self, values: pa.Array, column: Column) -> pa.Array:
        source = self._sources.get(column.name)
        field = self._fields[column.name]
        if source is None or source not in values.type.names:
            return self._filled(pa.nulls(len(values), arrow_type(column)), column, is_text=True)
        found = values.field(source)
        if any(test(found.type) for test in _FROM[column.type]):
            return self._filled(found.cast(arrow_type(column)), column, is_text=False)
        if not types.is_string(found.type) or field.annotation is str:
            raise TypeError(f"{column.name} is {found.type}")
        return self._filled(_numbers(found, column), column, is_text=True)

    def _filled(self, found: pa.Array, column: Column, is_text: bool) -> pa.Array:
        """Return a column with the default for nulls; a null of Parquet stays where the field takes it.

        is_text: what is null was an empty cell, or is not there at all.
        """
        field = self._fields[column.name]
        if not found.null_count or (column.optional and (field.is_required() or not is_text)):
            return found
        if field.is_required() or field.default_factory:
            raise ValueError(f"no value in column {column.name!r}")
        return found if field.default is None else found.fill_null(field.default)


def _reason(error: Exception) -> str:
    is_json = isinstance(error, RecursionError | json.JSONDecodeError)
    return f"not JSON: {error}" if is_json else " ".join(str(error).split())


def _is_too_large(cell: str) -> bool:
    with suppress(ValueError):
        return math.isinf(float(cell)) and any(map(str.isdigit, cell))
    return False


def plain_fields(schema: Any) -> set[str]:
    """Return the fields of a class that are numbers, booleans or texts and that nothing else restricts.

    None of a class that has validators or settings: only pydantic knows what they do.
    """
    if schema["type"] != "model" or schema["schema"]["type"] != "model-fields" or schema.get("post_init"):
        return set()
    if set(schema.get("config", {})) - _NO_RULES or schema.get("custom_init") or schema["schema"].get("extra_behavior"):
        return set()
    found = {name: one["schema"] for name, one in schema["schema"]["fields"].items()}
    bare = {name: one["schema"] if one["type"] in ("default", "nullable") else one for name, one in found.items()}
    return {name for name, one in bare.items() if one["type"] in _PLAIN and not set(one) - {"type", "metadata"}}


def _as_python(values: pa.Array) -> list[Any] | None:
    """Return the values column by column, None where Python does not have one of them."""
    with suppress(*_UNREADABLE):
        if not types.is_struct(values.type):
            return list(values.to_pylist())
        names = values.type.names
        columns = [values.field(name).to_pylist(maps_as_pydicts="strict") for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] or [{}] * len(values)
    return None


def _without_nulls(row: Any, error: ValidationError) -> bool:
    """Delete the keys of a row whose value is null and not valid; tell whether there were any."""
    found = False
    for fault in error.errors(include_url=False, include_context=False):
        *path, key = fault["loc"] or ("",)
        with suppress(LookupError, TypeError):
            inside = reduce(lambda value, one: value[one], path, row)
            if inside[key] is None:
                del inside[key]
                found = True
    return found


def _place(address: str, root: str | None, file: InputFile) -> tuple[fs.FileSystem, str]:
    """Return where an address leads. Raises ValueError when that is outside of the root."""
    filesystem, folder = (file.filesystem, str(PurePosixPath(file.path).parent)) if not root else open_filesystem(root)
    there, path = open_filesystem(address) if "://" in address else (filesystem, f"{PurePosixPath(folder) / address}")
    if root:
        inside = PurePosixPath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))
        if not inside or there.type_name != filesystem.type_name:
            raise ValueError(f"the file {address} is outside of --root")
    return there, path


def _numbers(cells: pa.Array, column: Column) -> pa.Array:
    """Return the numbers or booleans of cells of text. Raises one of UNFIT for what only pydantic reads or rejects."""
    found = cells.cast(arrow_type(column))
    if column.type is float and not math.isfinite(pc.sum(found).as_py() or 0.0):
        raise ValueError("a number that is not finite")
    if column.type is int and pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
        raise ValueError("a number in hexadecimal digits")
    return found
