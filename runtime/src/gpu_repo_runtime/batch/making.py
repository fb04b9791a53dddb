"""Inputs of an owner's model, made of the columns of a table or of lines of JSON."""

import json
import math
import os
import re
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pydantic import ValidationError
from pydantic_core import to_json

from ..interface import Interface
from ..owntypes import sentence
from .fields import ITEM, InputColumns
from .inputs import open_filesystem
from .parts import InputFile
from .text import JSON

# Errors of an address, of JSON, and of a time of which Python knows no year.
_UNREADABLE = (OSError, ValueError, OverflowError, pa.ArrowException)
# A number that may be larger than any double.
_HUGE = re.compile(r"[eE][+]?[0-9]{3}|[0-9]{300}")
# Of them pyarrow says what pydantic says.
_PLAIN = {"float", "int", "bool", "str"}
_COMMA = re.compile(r"[+-]?[0-9.]+,[0-9]+")

# Inputs, a list or a table, and why other rows are none: place -> reason.
Made = tuple[Any, dict[int, str]]


class Maker:
    """Makes inputs. limit: the bytes that a file may have which a row leads to."""

    def __init__(self, interface: Interface, columns: InputColumns, limit: int) -> None:
        self._adapter, self._columns, self._limit = interface.inputs, columns, limit
        self._shape = shape = columns.shape
        # pydantic makes doubles of the fractions in JSON, and decimals of these.
        exact = "'type': 'decimal'" in repr(interface.inputs.core_schema)
        self._json = json.JSONDecoder(parse_float=Decimal) if exact else JSON
        same = shape.is_object and all(key == column for key, column in columns.fields)
        other = exact or columns.files or shape.forbids or columns.left_out
        self._takes_lines = (same or columns.line) and not other
        self._is_items = not shape.is_object and len(columns.fields) > 1

        def having(keys: frozenset[str]) -> set[str]:
            return {column for key, column in columns.fields if (ITEM if self._is_items else key) in keys}

        self._texts = having(shape.texts)
        self._nested = having(shape.nested) - self._texts
        self._nulls = having(shape.nullable & shape.required)

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs, and why other rows are none: place -> reason.

        values: lines of JSON, or structs of columns as they come from a table.
        """
        rows = _as_python(values)
        made, bad = [], {}
        for place in range(len(values)):
            try:
                row = rows[place] if rows is not None else values[place].as_py(maps_as_pydicts="strict")
                made.append(self._input(row, file))
            except ValidationError as error:
                bad[place] = self._why(error)
            except (RecursionError, json.JSONDecodeError) as error:
                bad[place] = f"not JSON: {error}"
            except _UNREADABLE as error:
                bad[place] = " ".join(str(error).split())
        return made, bad

    def _input(self, row: Any, file: InputFile) -> Any:
        if file.format == "parquet":
            return self._of_table(self._with_files(self._picked(row), file))
        if file.format != "jsonl":
            picked = self._picked(self._of_cells(row))
        elif self._takes_lines:
            if _HUGE.search(row):
                self._json.decode(row)
            return self._adapter.validate_json(row)
        else:
            record = self._json.decode(row)
            if not isinstance(record, dict) and not self._columns.line:
                raise ValueError(f"expected a JSON object, got {type(record).__name__}")
            picked = record if self._columns.line else self._picked(record)
        if self._columns.files:
            return self._adapter.validate_python(self._with_files(picked, file))
        return self._adapter.validate_json(to_json(picked))

    def _of_table(self, row: Any) -> Any:
        """Return the input; a null is what is not there, where a field takes none."""
        try:
            return self._adapter.validate_python(row)
        except ValidationError as error:
            if not _without_nulls(row, error):
                raise
            return self._adapter.validate_python(row)

    def _picked(self, row: dict[str, Any]) -> Any:
        """Return the fields of a row."""
        columns = self._columns
        if not self._shape.is_object:
            missing = [column for column in columns.columns if column not in row]
            if missing:
                raise ValueError(f"no value in column {missing[0]!r}")
            values = [row[column] for _, column in columns.fields]
            return values if self._is_items else values[0]
        found = {key: row[column] for key, column in columns.fields if column in row}
        if columns.left_out is not None:
            found |= {key: row[key] for key in row if key not in columns.left_out}
        return found

    def _of_cells(self, row: dict[str, str | None]) -> dict[str, Any]:
        """Return the cells of a text file: lists and objects are in JSON, and an empty cell contains nothing."""
        found: dict[str, Any] = {}
        for column, cell in row.items():
            if column in self._texts and cell is not None:
                found[column] = cell
            elif not cell:
                # Where the field has a default, it is left out.
                found |= {column: None} if column in self._nulls else {}
            elif column in self._nested:
                found[column] = self._json.decode(cell)
            else:
                with suppress(ValueError):
                    if _HUGE.search(cell) and math.isinf(float(cell)):
                        raise OverflowError(f"column {column!r} has a number that is too large for a double")
                found[column] = cell
        return found

    def _with_files(self, picked: Any, file: InputFile) -> Any:
        """Return the values with the content of the files in place of their addresses."""
        blobs, files = self._shape.blobs, self._columns.files
        if not self._shape.is_object:
            return self._content(picked, file, bool(files)) if "" in blobs else picked
        named = {key for key, column in self._columns.fields if column in files}
        return {
            key: self._content(value, file, key in named) if key in blobs else value for key, value in picked.items()
        }

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
        key = str(first["loc"][0]) if first["loc"] else ""
        if isinstance(first["input"], str) and _COMMA.fullmatch(first["input"]):
            text += "; write numbers with a decimal point, not a comma"
        if first["type"] == "base64" and not self._columns.files and (not key or key in self._shape.blobs):
            text += "; --files says which columns hold addresses of files"
        return text


def plain_fields(schema: Any) -> set[str]:
    """Return the fields of a class that are numbers, booleans or texts and that nothing else restricts.

    None of a class that has validators or settings: only pydantic knows what they do.
    """
    if schema["type"] != "model" or schema["schema"]["type"] != "model-fields" or schema.get("post_init"):
        return set()
    if set(schema.get("config", {})) - {"title"} or schema.get("custom_init") or schema["schema"].get("extra_behavior"):
        return set()
    found = {name: one["schema"] for name, one in schema["schema"]["fields"].items() if "validation_alias" not in one}
    bare = {name: one["schema"] if one["type"] in ("default", "nullable") else one for name, one in found.items()}
    return {name for name, one in bare.items() if one["type"] in _PLAIN and not set(one) - {"type", "metadata"}}


def _as_python(values: pa.Array) -> list[Any] | None:
    """Return the values column by column, None where Python does not have one of them."""
    with suppress(*_UNREADABLE):
        if not pa.types.is_struct(values.type):
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
