"""Inputs of an owner's model, a list or a table, made of the columns of a table or of lines of JSON."""

import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pydantic import ValidationError
from pydantic_core import to_json

from ..interface import BOTH_NAMES, Interface
from ..owntypes import sentence
from ..tables import Column, arrow_type
from .columns import UNFIT, Columns, by_halves
from .parts import InputFile
from .text import JSON

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
    """Makes inputs, one by one."""

    def __init__(self, interface: Interface, columns: Columns) -> None:
        self._one, self._columns = interface.inputs, columns
        # pydantic makes doubles of the fractions in JSON, and decimals of these.
        is_exact = "'type': 'decimal'" in repr(interface.inputs.core_schema)
        self._json = json.JSONDecoder(parse_float=Decimal) if is_exact else JSON
        # A record of JSON is an input as it is; and so is its line, without reading it twice.
        self._takes_records = all(field.column in (field.key, field.name) for field in columns.fields)
        self._takes_lines = self._takes_records and not is_exact

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs, and why other rows are none: place -> reason.

        values: lines of JSON, or structs of columns as they come from a table.
        """
        found, bad = by_halves(values, lambda some: self.made(some, file), self.why)
        return [one for some in found for one in some], bad

    def made(self, values: pa.Array, file: InputFile) -> list[Any]:
        """Return the inputs. Raises one of UNFIT where a row is none."""
        if file.format == "parquet":
            return [self._one.validate_python(self._of_values(row), **BOTH_NAMES) for row in _as_python(values)]
        if file.format != "jsonl":
            return [self._of_json(self._of_cells(row)) for row in _as_python(values)]
        lines = values.to_pylist()
        if self._takes_lines and not any(map(_HUGE.search, lines)):
            return [self._one.validate_json(line, **BOTH_NAMES) for line in lines]
        return [self._of_json(self._of_record(self._json.decode(line))) for line in lines]

    def _of_json(self, row: Any) -> Any:
        return self._one.validate_json(to_json(row), **BOTH_NAMES)

    def _of_record(self, row: Any) -> Any:
        """Return what is validated of a line of JSON."""
        if self._takes_records:
            return row
        if not isinstance(row, dict):
            raise ValueError(f"expected a JSON object, got {type(row).__name__}")
        return {field.key: row[field.column] for field in self._columns.fields if field.column in row}

    def _of_values(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return what is validated of a row of Parquet: a null is what is not there, where a field takes none."""
        found = {}
        for field in self._columns.fields:
            value = row.get(field.column)
            if isinstance(value, dict) and field.kind == "bytes":
                # The images and sounds of datasets of Hugging Face.
                value = value.get("bytes")
            if value is not None or (field.nullable and field.column in row):
                found[field.key] = value
        return found

    def _of_cells(self, row: dict[str, str | None]) -> dict[str, Any]:
        """Return the cells of a text file: an empty one contains nothing, and lists and objects are in JSON."""
        found: dict[str, Any] = {}
        for field in self._columns.fields:
            cell = row.get(field.column)
            if field.kind == "text" and cell is not None:
                found[field.key] = cell
            elif not cell:
                # Where the field has a default, it is left out.
                found |= {field.key: None} if field.required and field.nullable else {}
            elif field.kind == "nested":
                found[field.key] = self._json.decode(cell)
            else:
                if field.kind == "scalar" and _is_too_large(cell):
                    raise ValueError(f"column {field.column!r} has a number that is too large for a double")
                found[field.key] = cell
        return found

    def why(self, error: Exception) -> str:
        """Return why a row is not an input."""
        if not isinstance(error, ValidationError):
            is_json = isinstance(error, RecursionError | json.JSONDecodeError)
            return f"not JSON: {error}" if is_json else " ".join(str(error).split())[:300]
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            return f"not JSON: {sentence(error)}"
        text = f"invalid row: {sentence(error)}"
        if isinstance(first["input"], str) and _COMMA.fullmatch(first["input"]):
            text += "; write numbers with a decimal point, not a comma"
        if first["type"] == "missing":
            text += "; `| None = None` allows rows without it"
        if first["type"] == "base64":
            text += "; a path is not opened: pass the content, or open paths in predict"
        return text


class TableMaker:
    """Makes tables whose columns are the fields of ``Input``."""

    def __init__(self, interface: Interface, columns: Columns) -> None:
        assert interface.table
        self._maker, self._columns = Maker(interface, columns), interface.table.columns
        self._sources = {field.name: field.column for field in columns.fields}
        input_type: Any = interface.input
        self._fields = input_type.model_fields
        self._is_plain = plain_fields(interface.inputs.core_schema).issuperset(one.name for one in self._columns)
        self._schema = pa.schema([(one.name, arrow_type(one)) for one in self._columns])

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs as a table, and why other rows are none: place -> reason."""
        tables, bad = by_halves(values, lambda some: self._table(some, file), self._maker.why)
        return pa.concat_tables([self._schema.empty_table(), *tables]), bad

    def _table(self, values: pa.Array, file: InputFile) -> pa.Table:
        """Return the inputs as a table. Raises one of UNFIT where a row is none."""
        if self._is_plain and file.format != "jsonl":
            try:
                return pa.table([self._column(values, column) for column in self._columns], schema=self._schema)
            except UNFIT:
                # Of few rows pydantic says what is wrong.
                if len(values) > FEW:
                    raise
        inputs = self._maker.made(values, file)
        columns = [pa.array([getattr(one, f.name) for one in inputs], f.type) for f in self._schema]
        return pa.table(columns, schema=self._schema)

    def _column(self, values: pa.Array, column: Column) -> pa.Array:
        """Return a column in the type of its field. Raises one of UNFIT where pydantic has to look at a row."""
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


def _as_python(values: pa.Array) -> Iterable[dict[str, Any]]:
    """Return structs as dicts, made column by column. Raises ValueError or OverflowError for a time without a year."""
    names = values.type.names
    columns = [values.field(name).to_pylist(maps_as_pydicts="strict") for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] or [{}] * len(values)


def _numbers(cells: pa.Array, column: Column) -> pa.Array:
    """Return the numbers or booleans of cells of text. Raises one of UNFIT for what only pydantic reads or rejects."""
    found = cells.cast(arrow_type(column))
    if column.type is float and not math.isfinite(pc.sum(found).as_py() or 0.0):
        raise ValueError("a number that is not finite")
    if column.type is int and pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
        raise ValueError("a number in hexadecimal digits")
    return found
