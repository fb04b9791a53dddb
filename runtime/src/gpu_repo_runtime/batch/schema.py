"""Which columns the input has, and their types: from the footers of all Parquet files, or the first rows of text."""

import json
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, RootModel

from ..interface import Interface
from ..owntypes import is_class, read_name, shown
from .columns import Columns, Field, common_field, is_utf8, json_field, listed, text_field
from .csvfile import DELIMITERS, CsvReader
from .exits import BadConfiguration
from .parts import LINE_COLUMN, READERS, InputFile, Limits
from .reading import errors_named
from .text import BROKEN, blocks, damage_of

UNIONS = (Union, UnionType)
SCALARS = {Literal, bool, int, float, Decimal, date, datetime, time, timedelta}
ALL = "*"


@dataclass(frozen=True)
class Found:
    """The columns of the input; no names where the files are empty.

    type_of: returns a column with its type. Raises BadInput where files do not agree on it.
    """

    names: list[str]
    type_of: Callable[[str], pa.Field]


EMPTY = Found([], lambda name: pa.field(name, pa.string()))


def find_columns(files: list[InputFile], interface: Interface, asked: Namespace, limits: Limits) -> Columns:
    """Return the columns to read with their types.

    asked: the options columns, keep and types; see --help. Raises BadConfiguration when a column is not there, BadInput
    for a damaged file.
    """
    found = _found(files, limits, all_headers=not interface.is_text)
    columns = _of_text(asked.columns) if interface.is_text else _of_fields(found, files, interface, asked.columns)
    keep = found.names or None if asked.keep == [ALL] else asked.keep
    if keep is None:
        keep = [columns.text] if columns.text else []
    if unknown := [name for name in asked.types if name not in keep]:
        raise BadConfiguration(f"--types {unknown[0]}=...: that is not a column of --keep")
    if found.names:
        fields = [field.key for field in fields_of(interface.input)]
        _check_folders(files, {*columns.names, *keep, *fields} - {*found.names})
        wanted = replace(columns, kept=pa.schema([(name, pa.null()) for name in keep]))
        wanted.check("the input", found.names, BadConfiguration)
    return replace(columns, kept=pa.schema([_kept(name, found, columns.text, asked.types) for name in keep]))


def _check_folders(files: list[InputFile], names: set[str]) -> None:
    """Raise BadConfiguration for a name that only a folder has, as in year=2024."""
    folders = {part.partition("=")[0] for file in files for part in file.name.split("/")[:-1] if "=" in part}
    if clash := names & folders:
        raise BadConfiguration(
            f"column {min(clash)!r} is the name of a folder, not of a column in the files; "
            "the folder is in the column 'file' of the result"
        )


def _kept(name: str, found: Found, text: str, declared: Mapping[str, pa.DataType]) -> pa.Field:
    if name in declared:
        return pa.field(name, declared[name])
    if not found.names or name == text:
        return pa.field(name, pa.string())
    field = found.type_of(name)
    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _found(files: list[InputFile], limits: Limits, all_headers: bool) -> Found:
    """Return the columns of all files. all_headers: read that of each CSV file."""
    parquet = [file for file in files if file.format == "parquet"]
    others = [file for file in files if file.format != "parquet"]
    with ThreadPoolExecutor(READERS) as pool:
        if schemas := list(pool.map(_of_parquet, parquet)):
            # Columns of files without rows may have no types.
            some = [schema for schema, rows in schemas if rows] or [schema for schema, _ in schemas]
            return Found(_all_names(schema.names for schema in some), lambda name: common_field(name, some))
        first = next((one for file in others if (one := _of_text_file(file, limits)).names), EMPTY)
        if all_headers:
            headers = pool.map(partial(_header, limits=limits), [one for one in others if one.format in DELIMITERS][1:])
            return replace(first, names=_all_names([first.names, *headers]))
    return first


def _all_names(names: Iterable[Sequence[str]]) -> list[str]:
    """Return the names of the first file, of which one may be there twice, and those that others add."""
    first, *others = names
    return [*first, *dict.fromkeys(name for more in others for name in more if name not in first)]


def _of_parquet(file: InputFile) -> tuple[pa.Schema, int]:
    with errors_named(file):
        try:
            source = pq.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")
            return source.schema_arrow, source.metadata.num_rows
        except BROKEN as error:
            raise damage_of(file, error, "the file cannot be read") from error


def _header(file: InputFile, limits: Limits) -> list[str]:
    with errors_named(file):
        return CsvReader(file, None, limits).header


def _of_text_file(file: InputFile, limits: Limits) -> Found:
    if file.format == "txt":
        return Found([LINE_COLUMN], lambda name: pa.field(name, pa.string()))
    with errors_named(file):
        if file.format == "jsonl":
            return _of_json(file, limits)
        reader = CsvReader(file, None, limits)
        cells = dict(zip(reader.header, reader.first_cells(), strict=True))
        return Found(reader.header, lambda name: text_field(name, cells.get(name, [])))


def _of_json(file: InputFile, limits: Limits) -> Found:
    values: dict[str, list[Any]] = {}
    block, _ = next(blocks(file, limits.row_size), (b"", 0.0))
    for line in block.split(b"\n"):
        for name, value in _object(line).items():
            values.setdefault(name, []).append(value)
    return Found([*values], lambda name: json_field(name, values.get(name, ())))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode())
        return {name: found[name] for name in found if is_utf8(name)} if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _of_text(chosen: Sequence[str]) -> Columns:
    if len(chosen) > 1:
        raise BadConfiguration(f"--columns {','.join(chosen)}: the model takes a text, which one column holds")
    return Columns(chosen[0] if chosen else LINE_COLUMN, pa.schema([]))


def _of_fields(found: Found, files: list[InputFile], interface: Interface, chosen: Sequence[str]) -> Columns:
    """Return the columns for a model whose input is not a text."""
    is_json = all(file.format == "jsonl" for file in files)
    fields, what = fields_of(interface.input), shown(interface.input)
    if not fields:
        if chosen or not is_json:
            how = "write class Input(BaseModel) with a field for each column, or use JSON Lines without --columns"
            raise BadConfiguration(f"Input is {what}, which is not made of columns: {how}")
        return Columns("", pa.schema([]))
    there = [*found.names] or [field.key for field in fields]
    # The rows of JSON Lines may lack an optional key.
    there += [one.key for one in fields if is_json and not one.required and not {one.key, one.name} & {*there}]
    columns = Columns("", pa.schema([]), tuple(_with_columns(fields, there, chosen, what)))
    is_parquet = any(file.format == "parquet" for file in files)
    return replace(columns, types=pa.schema([found.type_of(one) for one in columns.own if is_parquet and one in there]))


def _with_columns(fields: Sequence[Field], names: Sequence[str], chosen: Sequence[str], what: str) -> list[Field]:
    """Return the fields that are columns: with the name chosen for them, or by their alias or name."""
    renamed = {key: column or key for key, _, column in (word.partition("=") for word in chosen)}
    keys = [field.key for field in fields]
    if unknown := [key for key in renamed if key not in keys]:
        raise BadConfiguration(f"--columns {unknown[0]}: {what} has no such field; it has {listed(keys)}")
    usual = {one.key: one.name if one.name in names and one.key not in names else one.key for one in fields}
    found = [replace(one, column=(usual | renamed)[one.key]) for one in fields]
    found = [one for one in found if one.column in names or one.key in renamed or one.required]
    if not found:
        raise BadConfiguration(f"no field of {what} ({listed(keys)}) is a column of the input ({listed(names)})")
    return found


def fields_of(input_type: Any) -> list[Field]:
    """Return the fields of ``Input``; none where a line of JSON is one, and columns are not."""
    if not is_class(input_type) or is_class(input_type, RootModel) or input_type.model_config.get("extra") == "allow":
        return []
    return [
        _field(read_name(input_type, name), info.annotation, bool(info.metadata), info.is_required(), name)
        for name, info in input_type.model_fields.items()
    ]


def _field(key: str, annotation: Any, is_limited: bool, required: bool, name: str) -> Field:
    kind, nullable = _kind(annotation), not {NoneType, Any}.isdisjoint(_alternatives(annotation))
    if kind == "text" and (is_limited or nullable):
        kind = "other"  # an empty cell is null, and no value of a text with a pattern or a length
    return Field(key, kind, required, nullable, name=name)


def _kind(annotation: Any) -> str:
    types = set(_alternatives(annotation)) - {NoneType}
    if bytes in types:
        return "bytes"
    # A text with a note, which may be a pattern, is none of these.
    if str in (get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)):
        return "text"
    if any(is_dataclass(one) or (is_class(one, BaseModel | Collection) and not is_class(one, str)) for one in types):
        return "nested"
    return "scalar" if types <= SCALARS else "other"


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types of which a value has one, without notes and types of items."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return [one for option in get_args(annotation) for one in _alternatives(option)]
    return [get_origin(annotation) or annotation]
