"""From the input's files to parts: which columns there are, and the parts that are still to be done."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..interface import Interface
from .commontypes import without_views
from .exits import BadConfiguration, BadInput, refusal
from .inputs import InputFile
from .int96 import columns_of, with_units
from .parquetfiles import parquet_parts
from .parts import LINE_COLUMN, ROW, TEXT, Columns, Limits, Part
from .shapes import shape_of, taken
from .textfiles import DELIMITERS, Start, count_rows, delimiter_of, first_lines, read_header, some_lines, text_parts
from .widening import LARGEST, UNFIT, field_of, infer, is_empty, typed

# How far a column that begins with nulls is searched for a value, which tells its type.
SEARCHED_BYTES = 256 << 20


@dataclass(frozen=True)
class Asked:
    """What a run wants of the input: which columns make an input of the model, and which go to the output too.

    keep: None for the one with the text. columns, files, root: see --help.
    """

    column: str | None = None
    columns: Sequence[str] = ()
    keep: list[str] | None = None
    files: Sequence[str] = ()
    root: str | None = None


def find_columns(files: list[InputFile], interface: Interface, asked: Asked, limits: Limits) -> Columns:
    """Return the columns to read; their types are those of the first file that has some, as its first rows tell them.

    Raises BadConfiguration when a column is not there.
    """
    schema = _first_schema(files, limits)
    own = set(schema.names) if schema is not None else set()
    folders = {name: None for file in files for name in file.partitions if schema is not None and name not in own}
    if schema is not None:
        schema = pa.schema([*schema, *(pa.field(name, pa.string()) for name in folders)])
    columns = _columns(schema, files, interface, asked, limits)
    typed = columns.typed and replace(columns.typed, folders=frozenset(folders) & {c for _, c in columns.typed.fields})
    if (typed and typed.folders and not typed.columns) or (not typed and columns.text in folders):
        raise BadConfiguration("an input cannot be made of the names of folders alone")
    return replace(columns, typed=typed, folders=frozenset(folders) & set(columns.kept.names))


def _first_schema(files: list[InputFile], limits: Limits) -> pa.Schema | None:
    """Return the columns of the first file that has some, and has rows where one has: without them it has no values."""
    of_no_rows = None
    for file in files:
        found = _schema(file, limits)
        if found is not None and (file.format != "parquet" or pq.read_metadata(file.open()).num_rows):
            return found
        of_no_rows = found if of_no_rows is None else of_no_rows
    return of_no_rows


def _columns(
    schema: pa.Schema | None, files: list[InputFile], interface: Interface, asked: Asked, limits: Limits
) -> Columns:
    if not interface.is_text:
        return _typed_columns(schema, files, interface, asked, limits)
    if asked.files:
        raise BadConfiguration("--files is for a model whose Input holds bytes, and this one takes texts")
    text = _text_column(asked)
    names = [text] if asked.keep is None else asked.keep
    if schema is None:
        return Columns(text, pa.schema([(name, pa.string()) for name in names]))
    _check_kept(schema, [text, *names])
    others = {field.name: field for field in _kept(schema, [n for n in names if n != text], files, limits)}
    return Columns(text, pa.schema([others.get(name, pa.field(name, pa.string())) for name in names]))


def _text_column(asked: Asked) -> str:
    if len(asked.columns) > 1:
        raise BadConfiguration(f"--columns {','.join(asked.columns)}: the model takes a text, which one column holds")
    return asked.columns[0] if asked.columns else asked.column or LINE_COLUMN


def _with_folders(table: pa.Table, file: InputFile, columns: Columns) -> pa.Table:
    """Return the rows with the kept columns that the folders of their file tell."""
    for name in columns.folders:
        if name not in file.partitions:
            raise BadInput(f"{file.name}: no column {name!r}, which the folders of other files tell")
        value = pa.scalar(file.partitions[name], pa.string())
        table = table.append_column(name, pa.repeat(value, len(table)))
    return table.select([ROW, TEXT, *columns.kept.names])


def _typed_columns(
    schema: pa.Schema | None, files: list[InputFile], interface: Interface, asked: Asked, limits: Limits
) -> Columns:
    """Return the columns for a model of another input than a text. None is kept but those of --keep."""
    chosen, kept = [*asked.columns, *([asked.column] if asked.column else [])], asked.keep or []
    lines = all(file.format == "jsonl" for file in files)
    shape = shape_of(interface)
    if schema is None and (lines or shape.kind == "object") and not (chosen or kept or asked.files):
        names = list(shape.keys) if shape.kind == "object" else None
    else:
        names = schema.names if schema is not None else [*chosen, *kept]
    made = taken(interface, names, chosen, kept, asked.files, asked.root)
    if schema is None:
        return Columns("", pa.schema([(name, pa.string()) for name in kept]), made)
    _check_kept(schema, kept)
    return Columns("", pa.schema(_kept(schema, kept, files, limits)), made)


def _check_kept(schema: pa.Schema, names: list[str]) -> None:
    there = Counter(schema.names)
    for name in names:
        if name not in there:
            known = ", ".join(there) or "none"
            raise BadConfiguration(f"the input has no column {name!r} (see --column and --keep); it has: {known}")
        if there[name] > 1:
            raise BadConfiguration(f"the input has {there[name]} columns {name!r}: which one is meant?")


def first_rows(files: list[InputFile], count: int, limits: Limits) -> list[InputFile]:
    """Return the files that hold the first rows of the input, the last of them cut behind them."""
    found = []
    for file in files:
        if not count:
            break
        try:
            if file.format == "parquet":
                taken = rows = min(count, pq.read_metadata(file.open()).num_rows)
            else:
                taken, rows = count_rows(file, limits, count)
        except (OSError, pa.ArrowException) as error:
            if not file.blames(error):
                raise
            taken = rows = 1
        count -= rows
        found.append(replace(file, most=taken))
    return found


def read_parts(
    file: InputFile, file_index: int, columns: Columns, limits: Limits, start: Start, wanted: Callable[[int], bool]
) -> Iterator[Part | int]:
    """Yield the wanted parts of a file from `start` on, and at its end the number of its parts. Raises BadInput."""
    inside = columns.in_files()
    with errors_named(file):
        if file.format == "parquet":
            parts = parquet_parts(file, file_index, inside, limits, start.index, wanted)
        else:
            parts = text_parts(file, file_index, inside, limits, start, wanted)
        for part in parts:
            if columns.folders and isinstance(part, Part):
                part.table = _with_folders(part.table, file, columns)
            yield part


@contextmanager
def errors_named(file: InputFile) -> Iterator[None]:
    """Raise BadInput for a file that has gone, BadConfiguration for one that may not be read."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"{file.name} was there at the start and is gone now") from None
    except OSError as error:
        raise refusal(file.name, error) from error


def _kept(schema: pa.Schema, names: Sequence[str], files: list[InputFile], limits: Limits) -> list[pa.Field]:
    """Return columns with the types of their values for dictionary types, and of the first ones behind nulls."""
    fields = [schema.field(name) for name in names]
    nulls = {field.name for field in fields if pa.types.is_null(field.type)}
    found = _behind_nulls(nulls, files, limits)
    fields = [found.get(one.name, one.with_type(pa.string())) if one.name in nulls else one for one in fields]
    return [one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one for one in fields]


def _behind_nulls(names: Set[str], files: list[InputFile], limits: Limits) -> dict[str, pa.Field]:
    """Return the columns as their first values tell them, as far as there are any far and wide."""
    found: dict[str, pa.Field] = {}
    schemas = (schema for file in files for schema in _schemas(file, limits))
    while len(found) < len(names) and (schema := next(schemas, None)) is not None:
        there = Counter(schema.names)
        for name in names - found.keys():
            if there[name] == 1 and not pa.types.is_null(schema.field(name).type):
                found[name] = schema.field(name)
    return found


def _schemas(file: InputFile, limits: Limits) -> Iterator[pa.Schema]:
    """Yield the columns of a file, in JSON Lines those of some lines after the other."""
    if file.format != "jsonl":
        schema = _schema(file, limits)
        yield from [] if schema is None else [schema]
        return
    try:
        for lines in some_lines(file, limits, SEARCHED_BYTES):
            schema = _json_schema(lines)
            yield from [] if schema is None else [schema]
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise


def _schema(file: InputFile, limits: Limits) -> pa.Schema | None:
    """Return the columns of a file, None where it cannot be known (nothing in it, or nothing readable)."""
    if file.format == "txt":
        return pa.schema([(LINE_COLUMN, pa.string())])
    try:
        if file.format == "parquet":
            return _parquet_schema(file)
        lines = first_lines(file, limits)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error) and not isinstance(error, PermissionError | FileNotFoundError):
            raise refusal(file.name, error) if isinstance(error, OSError) else error from error
        return None
    if file.format in DELIMITERS:
        return (
            pa.schema([(name, pa.string()) for name in read_header(lines[0], file.format, delimiter_of(file))])
            if lines
            else None
        )
    return _json_schema(lines)


def _parquet_schema(file: InputFile) -> pa.Schema:
    metadata = pq.read_metadata(file.open())
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    schema = metadata.schema.to_arrow_schema()
    if columns_of(metadata.schema):
        schema = with_units(schema, file.open())
    times = Counter(schema.names)
    wide = [f.name for f in schema if pa.types.is_integer(f.type) and f.type.bit_width == 64 and times[f.name] == 1]
    exact = {name for name in wide if any(_may_be_large(group.column(place[name])) for group in groups)}
    return pa.schema([field_of(f.name, without_views(f.type), f.name in exact) for f in schema])


def _may_be_large(chunk: pq.ColumnChunkMetaData) -> bool:
    """Tell whether whole numbers of a row group may be too large for fractions beside them."""
    found = chunk.statistics
    if found is None or not found.has_min_max:
        return found is None or found.null_count != chunk.num_values
    return bool(found.min < -LARGEST or found.max > LARGEST)


def _json_schema(lines: list[bytes]) -> pa.Schema | None:
    found: dict[str, list[Any]] = {}
    for line in lines:
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError):
            continue
        for name, value in record.items() if isinstance(record, dict) else ():
            # No column can be called by half of a character.
            if _is_text(name):
                found.setdefault(name, []).append(value)
    return pa.schema([_json_field(name, values) for name, values in found.items()]) if found else None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_field(name: str, values: list[Any]) -> pa.Field:
    """Return the column that the values begin, without those that pyarrow has no column for."""
    try:
        found = typed(name, values)
        if not is_empty(found.type):
            return found
    except UNFIT:
        pass
    return typed(name, filter(_has_column, values))


def _has_column(value: Any) -> bool:
    try:
        return not is_empty(infer([value])[0])
    except UNFIT:
        return False
