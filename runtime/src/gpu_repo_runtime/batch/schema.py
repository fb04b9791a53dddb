"""Which columns the input has, and their types: from the footers of all Parquet files, or the first rows of text."""

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..interface import Interface
from .columns import common_schema, json_field, text_field, with_declared
from .exits import BadConfiguration, BadInput, refusal
from .inputs import InputFile
from .parts import LINE_COLUMN, Columns, Limits
from .readers import DELIMITERS, CsvReader, first_cells, is_utf8
from .shapes import listed, shape_of, taken
from .textstreams import BROKEN, BYTES_AT_ONCE, Lines

READERS = 16
ALL = "*"


@dataclass(frozen=True)
class Asked:
    """Which columns make an input of the model, and which go to the output too.

    keep: None for the column with the text, ["*"] for all. types: of kept columns. columns, files, root: see --help.
    """

    column: str | None = None
    columns: Sequence[str] = ()
    keep: list[str] | None = None
    files: Sequence[str] = ()
    root: str | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


def find_columns(files: list[InputFile], interface: Interface, asked: Asked, limits: Limits) -> Columns:
    """Return the columns to read with their types. Raises BadConfiguration when a column is not there."""
    schema, conflicts = _schema(files, limits, all_headers=not interface.is_text)
    own = set(schema.names) if schema is not None else set()
    folders = {name: None for file in files for name in file.partitions if schema is not None and name not in own}
    if schema is not None:
        schema = pa.schema([*schema, *(pa.field(name, pa.string()) for name in folders)])
    asked = replace(asked, keep=_kept_names(schema, asked, interface))
    columns = (_of_text if interface.is_text else _typed)(schema, files, interface, asked)
    for name in columns.kept.names:
        if name in conflicts and name != columns.text and name not in asked.types:
            raise BadInput(
                f"column {name!r} has no common type in the input: {conflicts[name]}; leave it out with --keep, "
                f"or set one with --types {name}=..."
            )
    unknown = [name for name in asked.types if name not in columns.kept.names]
    if unknown:
        raise BadConfiguration(f"--types {unknown[0]}=...: that is not a column of --keep")
    typed = columns.typed and replace(columns.typed, folders=frozenset(folders) & {c for _, c in columns.typed.fields})
    if (typed and typed.folders and not typed.columns) or (not typed and columns.text in folders):
        raise BadConfiguration("an input cannot be made of the names of folders alone")
    return replace(
        columns,
        kept=with_declared(columns.kept, asked.types),
        typed=typed,
        folders=frozenset(folders) & set(columns.kept.names),
        inputs=pa.schema(
            [one for one in schema or () if typed and one.name in typed.columns and one.name not in conflicts]
        ),
    )


def _kept_names(schema: pa.Schema | None, asked: Asked, interface: Interface) -> list[str] | None:
    if asked.keep != [ALL]:
        return asked.keep
    return list(schema.names) if schema is not None else None if interface.is_text else []


def _schema(files: list[InputFile], limits: Limits, all_headers: bool) -> tuple[pa.Schema | None, dict[str, str]]:
    """Return the columns of all files, None where no file can be read, and why some have no common type.

    all_headers: read that of each CSV file.
    """
    parquet = [file for file in files if file.format == "parquet"]
    csv_files = [file for file in files if all_headers and file.format in DELIMITERS]
    with ThreadPoolExecutor(READERS) as pool:
        found = [one for one in pool.map(_of_parquet, parquet) if one is not None]
        headers = [one for one in pool.map(lambda file: _header(file, limits), csv_files[1:]) if one is not None]
    if found:
        # Columns of files without rows may have no types.
        return common_schema([schema for schema, rows in found if rows] or [schema for schema, _ in found])
    text = [file for file in files if file.format != "parquet"]
    first = next((one for file in text if (one := _of_text_file(file, limits)) is not None), None)
    if first is None:
        return None, {}
    more = dict.fromkeys(name for names in headers for name in names if name not in first.names)
    return pa.schema([*first, *(pa.field(name, pa.string()) for name in more)]), {}


def _of_parquet(file: InputFile) -> tuple[pa.Schema, int] | None:
    try:
        source = pq.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")
        return source.schema_arrow, source.metadata.num_rows
    except BROKEN as error:
        _check_damaged(file, error)
        return None


def _header(file: InputFile, limits: Limits) -> list[str] | None:
    try:
        return CsvReader(file, None, limits).header
    except BROKEN as error:
        _check_damaged(file, error)
        return None


def _of_text_file(file: InputFile, limits: Limits) -> pa.Schema | None:
    try:
        if file.format == "txt":
            return pa.schema([(LINE_COLUMN, pa.string())])
        if file.format in DELIMITERS:
            found = first_cells(file, limits, BYTES_AT_ONCE)
            return pa.schema([text_field(name, cells) for name, cells in found]) if found else None
        return _of_json(file, limits)
    except csv.Error as error:
        raise BadInput(f"the header of {file.name} cannot be read: {error}") from None
    except BROKEN as error:
        _check_damaged(file, error)
        return None


def _check_damaged(file: InputFile, error: Exception) -> None:
    """Raise an error of the network or of permissions; the rows of a damaged file are bad rows later."""
    if not file.blames(error) and not isinstance(error, EOFError | PermissionError | FileNotFoundError):
        raise refusal(file.name, error) if isinstance(error, OSError) else error from error


def _of_json(file: InputFile, limits: Limits) -> pa.Schema | None:
    found: dict[str, list[Any]] = {}
    lines, size = Lines(file, limits.row_size), 0
    while size < BYTES_AT_ONCE and (line := lines.next()):
        size += len(line)
        for name, value in _object(line).items():
            found.setdefault(name, []).append(value)
    return pa.schema([json_field(name, values) for name, values in found.items()]) if found else None


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode())
        return {name: found[name] for name in found if is_utf8(name)} if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _of_text(schema: pa.Schema | None, files: list[InputFile], interface: Interface, asked: Asked) -> Columns:
    if asked.files:
        raise BadConfiguration("--files is for a model whose Input holds bytes, and this one takes texts")
    if len(asked.columns) > 1:
        raise BadConfiguration(f"--columns {','.join(asked.columns)}: the model takes a text, which one column holds")
    text = asked.columns[0] if asked.columns else asked.column or LINE_COLUMN
    names = [text] if asked.keep is None else asked.keep
    if schema is None:
        return Columns(text, pa.schema([(name, pa.string()) for name in names]))
    check_names(schema, [text, *names])
    kept = [pa.field(text, pa.string()) if name == text else _kept(schema, name) for name in names]
    return Columns(text, pa.schema(kept))


def _kept(schema: pa.Schema, name: str) -> pa.Field:
    found = schema.field(name)
    return found.with_type(pa.string()) if pa.types.is_null(found.type) else found


def _typed(schema: pa.Schema | None, files: list[InputFile], interface: Interface, asked: Asked) -> Columns:
    """Return the columns for a model whose input is not a text. None is kept except those of --keep."""
    chosen, kept = [*asked.columns, *([asked.column] if asked.column else [])], asked.keep or []
    shape = shape_of(interface)
    lines = all(file.format == "jsonl" for file in files)
    if schema is None and (lines or shape.kind == "object") and not (chosen or kept or asked.files):
        names = list(shape.keys) if shape.kind == "object" else None
    else:
        names = schema.names if schema is not None else [*chosen, *kept]
    if names is not None and lines:
        # Any row of JSON may have any key.
        names = list(dict.fromkeys([*names, *(key for key in shape.keys if key and key not in shape.required)]))
    made = taken(interface, names, chosen, kept, asked.files, asked.root)
    if schema is None:
        return Columns("", pa.schema([(name, pa.string()) for name in kept]), made)
    check_names(schema, kept)
    return Columns("", pa.schema([_kept(schema, name) for name in kept]), made)


def check_names(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise BadConfiguration for a name that is not a column, or two."""
    there = Counter(schema.names)
    for name in names:
        if name not in there:
            raise BadConfiguration(f"the input has no column {name!r} (see --column, --keep); it has: {listed(there)}")
        if there[name] > 1:
            raise BadConfiguration(f"the input has {there[name]} columns {name!r}: which one is meant?")
