"""Inputs of an owner's model, made of the columns of a table or of lines of JSON."""

import json
import os
import re
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pydantic import TypeAdapter, ValidationError

from ..interface import Interface
from ..owntypes import sentence
from .inputs import InputFile, open_filesystem
from .shapes import Taken

# What reading an address may raise besides OSError: an unknown scheme, an address of nothing. And a time of which
# Python knows no year.
_NO_FILE = (OSError, ValueError, OverflowError, pa.ArrowException)
_UNDERSCORES = re.compile(r"\s*[+-]?\d+(_\d+)+\.?[\d_]*([eE][+-]?[\d_]+)?\s*")
# A number that may be larger than any double.
_HUGE = re.compile(r"[eE][+]?[0-9]{3}|[0-9]{300}")
# How pydantic notes a field that is one.
_DECIMAL = "'type': 'decimal'"
# Of them JSON says what Python says.
_PLAIN = {"float", "int", "bool", "str"}

Made = tuple[list[Any], dict[int, str]]


class Maker:
    """Makes inputs. limit: the bytes that a file may have which a row leads to."""

    def __init__(self, interface: Interface, taken: Taken, limit: int) -> None:
        self._adapter, self._taken, self._limit = interface.inputs, taken, limit
        self._many: TypeAdapter[list[Any]] = TypeAdapter(list[interface.input])  # type: ignore[name-defined]
        shape = taken.shape
        self._keys: dict[str, list[str]] = {}
        for key, column in taken.fields:
            self._keys.setdefault(column, []).append(key)
        names = {key for key, column in taken.fields if key == column}
        # pydantic makes doubles of the fractions in JSON, and decimals of these.
        exact = _DECIMAL in repr(interface.inputs.core_schema)
        self._fraction = _fraction if exact else None
        own = names == set(shape.keys) and not (shape.strict or taken.left_out)
        self._is_line = not exact and (
            taken.line or (shape.kind == "object" and own and not (taken.files or taken.folders))
        )
        self._is_plain = plain_fields(interface.inputs.core_schema).issuperset(shape.keys) and not (
            taken.files or taken.folders
        )

    def inputs(self, values: pa.Array, file: InputFile) -> Made:
        """Return the inputs, and why other rows are none: place -> reason.

        values: lines of JSON, or structs of columns as they come from a table.
        """
        if self._is_plain and file.format != "jsonl":
            found = self._all_at_once(values, is_text=file.format != "parquet")
            if found is not None:
                return found, {}
        made, bad = [], {}
        for place, value in enumerate(values):
            try:
                made.append(self._input(value, file))
            except ValidationError as error:
                bad[place] = _why(error, self._taken)
            except _NO_FILE as error:
                bad[place] = " ".join(str(error).split())
            except RecursionError:
                bad[place] = "not JSON: too deep"
        return made, bad

    def _all_at_once(self, values: pa.Array, is_text: bool) -> list[Any] | None:
        """Return the inputs of rows of numbers and texts, None where one of them needs a closer look.

        is_text: the values are cells of a text file.
        """
        shape, there = self._taken.shape, values.type.names
        fields = [(key, column) for key, column in self._taken.fields if column in there]
        columns = [values.field(column) for _, column in fields]
        if is_text and any(map(_needs_look, columns)):
            return None
        lists = [one.to_pylist() for one in columns]
        if is_text:
            lists = [
                one if key in shape.texts else [cell or None for cell in one]
                for (key, _), one in zip(fields, lists, strict=True)
            ]
        stays_null = shape.nullable & shape.required if is_text else shape.nullable
        rows = [
            {key: value for (key, _), value in zip(fields, row, strict=True) if value is not None or key in stays_null}
            for row in zip(*lists, strict=True)
        ]
        try:
            return self._many.validate_python(rows)
        except ValidationError:
            return None

    def _input(self, scalar: pa.Scalar, file: InputFile) -> Any:
        value = _of_python(scalar)
        found = self._made_of(value, file)
        if file.format != "parquet" and self._is_infinite(value, found):
            raise ValueError("a number that is too large for a double")
        return found

    def _made_of(self, value: Any, file: InputFile) -> Any:
        if file.format != "jsonl":
            return self._of_columns(value | self._of_folders(file), file)
        if self._is_line:
            return self._adapter.validate_json(value)
        row = json.loads(value, parse_float=self._fraction)
        if self._taken.line:
            return self._adapter.validate_json(json.dumps(row, default=str))
        if not isinstance(row, dict):
            raise ValueError(f"expected a JSON object, got {type(row).__name__}")
        return self._of_json(row | self._of_folders(file), file)

    def _is_infinite(self, value: str | dict[str, str], found: Any) -> bool:
        """Tell whether text with a huge number has become an infinite one."""
        texts = [value] if isinstance(value, str) else list(filter(None, value.values()))
        return any(map(_HUGE.search, texts)) and _has_infinity(self._adapter.dump_python(found))

    def _of_json(self, row: dict[str, Any], file: InputFile) -> Any:
        """Return the input of a row whose values are those of JSON. Files among them are read."""
        picked = self._picked(row)
        if self._taken.files:
            return self._adapter.validate_python(self._with_files(picked, file))
        return self._adapter.validate_json(json.dumps(picked, default=str))

    def _of_columns(self, row: dict[str, Any], file: InputFile) -> Any:
        if file.format != "parquet":
            return self._of_json(self._parsed(row), file)
        picked = self._with_files(self._picked(row), file)
        return self._adapter.validate_python(self._taken.shape.clean(picked))

    def _of_folders(self, file: InputFile) -> dict[str, str]:
        found = file.partitions if self._taken.folders else {}
        return {name: value for name, value in found.items() if name in self._taken.folders and value is not None}

    def _picked(self, row: dict[str, Any]) -> Any:
        shape = self._taken.shape
        if shape.kind == "object":
            found = {key: row[column] for column in row if column in self._keys for key in self._keys[column]}
            found |= {key: row[name] for key, name in shape.names.items() if key not in found and name in row}
            if self._taken.left_out is not None:
                found |= {key: row[key] for key in row if key not in self._taken.left_out}
            return found
        missing = self._taken.missing(list(row))
        if missing is not None:
            raise ValueError(f"no value in column {missing!r}")
        values = [row[column] for _, column in self._taken.fields]
        return values[0] if len(values) == 1 else values

    def _parsed(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the cells of a text file: lists and objects are in JSON, and an empty cell contains nothing."""
        shape = self._taken.shape
        items = shape.kind == "list" and len(self._taken.fields) > 1
        found: dict[str, Any] = {}
        for column, cell in row.items():
            keys = set(self._keys.get(column, ()))
            is_text = bool(keys & shape.texts) and not items
            if cell is None or (not cell and not is_text):
                found |= self._empty(column, cell, keys, items)
                continue
            if not is_text and _UNDERSCORES.fullmatch(cell):
                # Python's way to write numbers, and nobody else's.
                raise ValueError(f"column {column!r} holds {cell!r}, which is not a number")
            is_json = keys & shape.nested and not items
            found[column] = json.loads(cell, parse_float=self._fraction) if is_json else cell
        return found

    def _empty(self, column: str, cell: str | None, keys: set[str], items: bool) -> dict[str, Any]:
        """Return null where the model needs a value and takes null; else the key is left out, for its default."""
        shape = self._taken.shape
        if items:
            return {column: None if shape.null_items else cell}
        return {column: None} if keys & shape.nullable & shape.required else {}

    def _with_files(self, picked: Any, file: InputFile) -> Any:
        """Return the values with the content of the files in place of their addresses."""
        shape = self._taken.shape
        if shape.kind != "object":
            return self._content(picked, file, bool(self._taken.files)) if "" in shape.blobs else picked
        named = {key for key, column in self._taken.fields if column in self._taken.files}
        return {
            key: self._content(value, file, key in named) if key in shape.blobs else value
            for key, value in picked.items()
        }

    def _content(self, value: Any, file: InputFile, is_address: bool) -> Any:
        if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
            # So the datasets of Hugging Face have images and sounds in Parquet.
            value, is_address = (value["path"], True) if value["bytes"] is None else (value["bytes"], False)
        return self._read(value, file) if is_address and isinstance(value, str) else value

    def _read(self, address: str, file: InputFile) -> bytes:
        filesystem, path = _place(address, self._taken.root, file)
        info = filesystem.get_file_info(path)
        if info.type != fs.FileType.File:
            raise ValueError(f"there is no file {address}")
        if int(info.size or 0) > self._limit:
            raise ValueError(f"the file {address} has {info.size} bytes, more than --max-row-bytes")
        with filesystem.open_input_file(path) as stream:
            content: bytes = stream.read()
        return content


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


def _needs_look(cells: pa.Array) -> bool:
    """Tell whether a cell may be a number as only Python writes it, or a number that no double holds."""
    found = pc.match_substring_regex(cells, rf"[0-9]_[0-9]|{_HUGE.pattern}")
    return pc.any(found).as_py() is True


def _has_infinity(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_infinity, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_infinity, value))
    return isinstance(value, float) and value in (float("inf"), float("-inf"))


def _of_python(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except ValueError as error:
        if "anosecond" in str(error):
            raise ValueError("a time with parts of a microsecond, which Python's datetime does not hold") from None
        raise


def _fraction(text: str) -> float | Decimal:
    """Return a number of JSON: a double where that holds it as it is written, else a decimal."""
    number = float(text)
    return number if Decimal(repr(number)) == Decimal(text) else Decimal(text)


def _place(address: str, root: str | None, file: InputFile) -> tuple[fs.FileSystem, str]:
    """Return where an address leads. Raises ValueError when that is outside of the root."""
    filesystem, folder = (file.filesystem, str(PurePosixPath(file.path).parent)) if not root else open_filesystem(root)
    there, path = open_filesystem(address) if "://" in address else (filesystem, f"{PurePosixPath(folder) / address}")
    if root:
        inside = PurePosixPath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))
        if not inside or there.type_name != filesystem.type_name:
            raise ValueError(f"the file {address} is outside of --root")
    return there, path


def _why(error: ValidationError, taken: Taken) -> str:
    text = f"no Input: {sentence(error)}"
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "base64" and not taken.files and (not key or key in taken.shape.blobs):
        text += "; --files says which columns hold addresses of files"
    return text
