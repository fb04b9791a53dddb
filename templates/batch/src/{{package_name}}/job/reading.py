"""From the input's files to parts: which columns there are, and the parts that are still to be done."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import json as pa_json

from .exits import BadConfiguration, BadInput
from .inputs import InputFile
from .parquetfiles import parquet_parts
from .parts import Columns, Limits, Part
from .textfiles import DELIMITERS, Start, first_lines, read_header, text_parts

LINE_COLUMN = "text"


def find_columns(files: list[InputFile], text: str, keep: list[str] | None, limits: Limits) -> Columns:
    """Return the columns to read; their types are those of the first file that has some.

    keep: columns that go to the output too, None for the one with the text.
    Raises BadConfiguration when a column is not there or holds lists or objects.
    """
    schema = next((found for found in (_schema(file, limits) for file in files) if found is not None), None)
    names = [text] if keep is None else keep
    if schema is None:
        return Columns(text, pa.schema([(name, pa.string()) for name in names]))
    for name in [text, *names]:
        if name not in schema.names:
            known = ", ".join(schema.names) or "none"
            raise BadConfiguration(f"the input has no column {name!r} (see --column and --keep); it has: {known}")
        if pa.types.is_nested(schema.field(name).type):
            raise BadConfiguration(f"column {name!r} holds {schema.field(name).type}: lists and objects cannot be kept")
    fields = [pa.field(n, pa.string() if n == text else _plain(schema.field(n).type)) for n in names]
    return Columns(text, pa.schema(fields))


def read_parts(
    file: InputFile, file_index: int, columns: Columns, limits: Limits, start: Start, wanted: Callable[[int], bool]
) -> Iterator[Part | int]:
    """Yield the wanted parts of a file from `start` on, and at its end the number of its parts. Raises BadInput."""
    try:
        if file.format == "parquet":
            yield from parquet_parts(file, file_index, columns, limits, start.index, wanted)
        else:
            yield from text_parts(file, file_index, columns, limits, start, wanted)
    except FileNotFoundError:
        raise BadInput(f"{file.name} was there at the start and is gone now") from None
    except PermissionError as error:
        raise BadInput(f"{file.name} may not be read: {error}") from None


def _plain(form: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary type, a null type as string, any other type as it is."""
    if pa.types.is_dictionary(form):
        return form.value_type
    return pa.string() if pa.types.is_null(form) else form


def _schema(file: InputFile, limits: Limits) -> pa.Schema | None:
    """Return the columns of a file, None where it cannot be known (nothing in it, or nothing readable)."""
    if file.format == "txt":
        return pa.schema([(LINE_COLUMN, pa.string())])
    try:
        if file.format == "parquet":
            return pq.read_schema(file.filesystem.open_input_file(file.path))
        lines = first_lines(file, limits)
    except (OSError, pa.ArrowException) as error:
        if getattr(error, "errno", None) and not isinstance(error, PermissionError | FileNotFoundError):
            raise
        return None
    if file.format in DELIMITERS:
        return pa.schema([(name, pa.string()) for name in read_header(lines[0], file.format)]) if lines else None
    return _json_schema(lines)


def _schema_of_json(content: bytes) -> pa.Schema | None:
    options = pa_json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    try:
        return pa_json.read_json(pa.BufferReader(content), read_options=options).schema
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _json_schema(lines: list[bytes]) -> pa.Schema | None:
    whole = _schema_of_json(b"\n".join(lines))
    schemas = [whole] if whole else [schema for schema in map(_schema_of_json, lines) if schema]
    if not schemas:
        return None
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException:
        schema = schemas[0]
    # A text that looks like a date stays a text: the next one may not look like it.
    return pa.schema([pa.field(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in schema])
