"""Which columns the input has, and their types: from the footers of all Parquet files, or the first rows of text."""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..interface import Interface
from .columns import Columns, common_field, is_utf8, json_field, listed, text_field
from .csvfile import DELIMITERS, CsvReader
from .exits import BadConfiguration, BadInput, refusal
from .fields import check_single, fields_of, input_columns
from .parts import LINE_COLUMN, READERS, InputFile, Limits
from .text import BROKEN, Damaged, blocks, damage_of

ALL = "*"


@dataclass(frozen=True)
class Found:
    """The columns of the input. type_of: returns one with its type. Raises BadInput where files do not agree on it."""

    names: list[str]
    type_of: Callable[[str], pa.Field]


def find_columns(files: list[InputFile], interface: Interface, asked: Namespace, limits: Limits) -> Columns:
    """Return the columns to read with their types. Raises BadConfiguration when a column is not there.

    asked: the options columns, keep, files, root, and types; see --help.
    """
    found = _found(files, limits, all_headers=not interface.is_text)
    keep = asked.keep
    if keep == [ALL]:
        keep = found.names if found else None
    if found:
        fields = [field.key for field in fields_of(interface.input)]
        _check_folders(files, {*asked.columns, *(keep or []), *fields} - {*found.names})
    if interface.is_text:
        columns = _of_text(asked)
        names = [columns.text] if keep is None else keep
    else:
        columns, names = _typed(found, keep or [], files, interface, asked), keep or []
    if unknown := [name for name in asked.types if name not in names]:
        raise BadConfiguration(f"--types {unknown[0]}=...: that is not a column of --keep")
    if found:
        check_names(found.names, [columns.text, *names] if columns.text else names)
    kept = [_kept(name, found, columns.text, asked.types) for name in names]
    return replace(columns, kept=pa.schema(kept))


def _check_folders(files: list[InputFile], names: set[str]) -> None:
    """Raise BadConfiguration for a name that only a folder has, as in year=2024."""
    folders = {part.partition("=")[0] for file in files for part in file.name.split("/")[:-1] if "=" in part}
    if clash := names & folders:
        raise BadConfiguration(
            f"column {min(clash)!r} is the name of a folder, not of a column in the files; "
            "the folder is in the column 'file' of the result"
        )


def _kept(name: str, found: Found | None, text: str, declared: Mapping[str, pa.DataType]) -> pa.Field:
    if name in declared:
        return pa.field(name, declared[name])
    if found is None or name == text:
        return pa.field(name, pa.string())
    field = found.type_of(name)
    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _found(files: list[InputFile], limits: Limits, all_headers: bool) -> Found | None:
    """Return the columns of all files, None where no file can be read.

    all_headers: read that of each CSV file.
    """
    parquet = [file for file in files if file.format == "parquet"]
    others = [file for file in files if file.format != "parquet"]
    headers = [file for file in others if all_headers and file.format in DELIMITERS][1:]
    with ThreadPoolExecutor(READERS) as pool:
        if schemas := [one for one in pool.map(partial(_unless_damaged, _of_parquet), parquet) if one]:
            # Columns of files without rows may have no types.
            some = [schema for schema, rows in schemas if rows] or [schema for schema, _ in schemas]
            more = dict.fromkeys(name for schema in some for name in schema.names if name not in some[0].names)
            return Found([*some[0].names, *more], lambda name: common_field(name, some))
        of_text = partial(_of_text_file, limits=limits)
        first: Found | None = next((one for file in others if (one := _unless_damaged(of_text, file))), None)
        if first and headers:
            read = pool.map(partial(_unless_damaged, lambda file: CsvReader(file, None, limits).header), headers)
            more = dict.fromkeys(name for names in read for name in names or () if name not in first.names)
            return replace(first, names=[*first.names, *more])
    return first


def _unless_damaged(read: Callable[[InputFile], Any], file: InputFile) -> Any:
    """Return what a function reads of a file, None of a damaged one, whose rows are bad ones later."""
    try:
        return read(file)
    except (Damaged, FileNotFoundError):
        return None
    except OSError as error:
        raise refusal(file.name, error) from error


def _of_parquet(file: InputFile) -> tuple[pa.Schema, int]:
    try:
        source = pq.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")
        return source.schema_arrow, source.metadata.num_rows
    except BROKEN as error:
        raise damage_of(file, error, "") from error


def _of_text_file(file: InputFile, limits: Limits) -> Found | None:
    if file.format == "txt":
        return Found([LINE_COLUMN], lambda name: pa.field(name, pa.string()))
    if file.format == "jsonl":
        return _of_json(file, limits)
    reader = CsvReader(file, None, limits)
    cells = dict(zip(reader.header, reader.first_cells(), strict=True))
    return Found(reader.header, lambda name: text_field(name, cells.get(name, []))) if cells else None


def _of_json(file: InputFile, limits: Limits) -> Found | None:
    values: dict[str, list[Any]] = {}
    block, _ = next(blocks(file, limits.row_size), (b"", 0.0))
    for line in block.split(b"\n"):
        for name, value in _object(line).items():
            values.setdefault(name, []).append(value)
    return Found([*values], lambda name: json_field(name, values.get(name, ()))) if values else None


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode())
        return {name: found[name] for name in found if is_utf8(name)} if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _of_text(asked: Namespace) -> Columns:
    if asked.files:
        raise BadConfiguration("--files is for a model whose Input holds bytes, and this one takes texts")
    if len(asked.columns) > 1:
        raise BadConfiguration(f"--columns {','.join(asked.columns)}: the model takes a text, which one column holds")
    return Columns(asked.columns[0] if asked.columns else LINE_COLUMN, pa.schema([]))


def check_names(there: Sequence[str], names: Sequence[str]) -> None:
    """Raise BadConfiguration for a name that is not a column, or two."""
    for name in names:
        if name not in there:
            raise BadConfiguration(f"the input has no column {name!r} (see --columns, --keep); it has: {listed(there)}")
        check_single(there, name)


def _typed(
    found: Found | None,
    kept: list[str],
    files: list[InputFile],
    interface: Interface,
    asked: Namespace,
) -> Columns:
    """Return the columns for a model whose input is not a text. None is kept except those of --keep."""
    names, is_json = found.names if found else None, all(file.format == "jsonl" for file in files)
    made = input_columns(interface.input, names, kept, asked, is_json)
    types = []
    if found and any(file.format == "parquet" for file in files):
        for name in (name for name in made.columns if name in found.names):
            # Without a common type each file's own goes to the model.
            with suppress(BadInput):
                types.append(found.type_of(name))
    return Columns("", pa.schema([]), made, inputs=pa.schema(types))
