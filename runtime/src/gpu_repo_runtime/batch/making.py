"""Inputs of an owner's model, made of the values of a table or of lines of JSON."""

import json
import os
import re
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pydantic import ValidationError

from ..interface import Interface
from ..owntypes import sentence
from .inputs import InputFile, open_filesystem
from .overflow import cell_loses, has_bound, loses, may_be_lost
from .shapes import Taken

# What reading an address may raise besides OSError: a scheme that nobody knows, an address of nothing. And a time of
# which Python knows no year.
_NO_FILE = (OSError, ValueError, OverflowError, pa.ArrowException)


_UNDERSCORES = re.compile(r"\s*[+-]?\d+(_\d+)+\.?[\d_]*([eE][+-]?[\d_]+)?\s*")
# How pydantic notes a field that is one.
_DECIMAL = "'type': 'decimal'"


class Refused(str):
    """Stands for a row that is not an input, and says why."""


class Maker:
    """Makes inputs. limit: the bytes that a file may have which a row leads to."""

    def __init__(self, interface: Interface, taken: Taken, limit: int) -> None:
        self._adapter, self._taken, self._limit = interface.inputs, taken, limit
        shape = taken.shape
        self._keys: dict[str, list[str]] = {}
        for key, column in taken.fields:
            self._keys.setdefault(column, []).append(key)
        names = {key for key, column in taken.fields if key == column}
        # pydantic makes doubles of the fractions in JSON, and decimals of these.
        exact = _DECIMAL in repr(interface.inputs.core_schema)
        self._fraction = _fraction if exact else None
        self._as_it_is = not exact and (
            taken.line
            or (
                shape.kind == "object"
                and not (shape.strict or taken.files or taken.folders)
                and names == set(shape.keys)
            )
        )

    def inputs(self, values: pa.Array, file: InputFile) -> list[Any]:
        """Return the inputs, in place of each that is none a `Refused`.

        values: lines of JSON, or objects of columns as they come from a table.
        """
        return [self._input(value, file) for value in values]

    def _input(self, scalar: pa.Scalar, file: InputFile) -> Any:
        try:
            value = _of_python(scalar)
            found = self._made_of(value, file)
            if file.format != "parquet" and self._has_lost(value, found):
                return Refused("a number that is too large or too small for a double")
            return found
        except ValidationError as error:
            return Refused(_why(error, self._taken))
        except _NO_FILE as error:
            return Refused(" ".join(str(error).split()))
        except RecursionError:
            return Refused("no JSON: too deep")

    def _made_of(self, value: Any, file: InputFile) -> Any:
        if file.format != "jsonl":
            return self._of_columns(value | self._of_folders(file), file)
        if self._as_it_is:
            return self._adapter.validate_json(value)
        row = json.loads(value, parse_float=self._fraction)
        if self._taken.line:
            return self._adapter.validate_json(json.dumps(row, default=str))
        if not isinstance(row, dict):
            return Refused(f"no JSON object but {type(row).__name__}")
        return self._of_json(row | self._of_folders(file), file)

    def _has_lost(self, value: str | dict[str, str], found: Any) -> bool:
        """Tell whether an input that is made of text has an infinite number or a 0 which the text does not have."""
        cells = [value] if isinstance(value, str) else list(filter(None, value.values()))
        if isinstance(found, Refused) or not any(map(may_be_lost, cells)):
            return False
        return has_bound(self._adapter.dump_python(found)) and (
            loses(value) if isinstance(value, str) else any(map(cell_loses, cells))
        )

    def _of_json(self, row: dict[str, Any], file: InputFile) -> Any:
        """Return the input of a row whose values are those of JSON. Files among them are read."""
        picked = self._picked({column: row[column] for column in self._keys if column in row})
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
        if self._taken.shape.kind == "object":
            return {key: row[column] for column in row for key in self._keys[column]}
        missing = self._taken.missing(list(row))
        if missing is not None:
            raise ValueError(f"no value in column {missing!r}")
        values = [row[column] for _, column in self._taken.fields]
        return values[0] if len(values) == 1 else values

    def _parsed(self, row: dict[str, str]) -> dict[str, Any]:
        """Return the cells of a text file: lists and objects are in JSON, and an empty one holds nothing."""
        shape, found = self._taken.shape, {}
        items = shape.kind == "list" and len(self._taken.fields) > 1
        for column, cell in row.items():
            keys = set(self._keys[column])
            if not (items or keys & shape.texts) and _UNDERSCORES.fullmatch(cell):
                # Python's way to write numbers, and nobody else's.
                raise ValueError(f"column {column!r} holds {cell!r}, which is no number")
            if items or (cell and not keys & shape.nested) or keys & shape.texts:
                found[column] = cell
            elif cell:
                found[column] = json.loads(cell, parse_float=self._fraction)
        return found

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
