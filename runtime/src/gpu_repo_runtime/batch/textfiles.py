"""Parts of a text file: JSON Lines, CSV or plain lines, compressed or not."""

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from .commontypes import together
from .csvrecords import CsvReader, raw_of
from .encodings import InUtf8
from .exits import BadInput
from .inputs import COMPRESSED, REQUEST, InputFile
from .lines import Line, LineReader, TooLong
from .parts import TEXT, UNCOUNTED, BadRow, Columns, Limits, Part, empty_table, table_schema
from .records import BYTE_ORDER_MARK, Parsed, csv_parser, parse_json, parse_lines

DELIMITERS = {"csv": ",", "tsv": "\t"}
PARSED_BYTES = 8 << 20


@dataclass(frozen=True)
class Start:
    """Where to go on in a file: at which part, row and byte."""

    index: int = 0
    row: int = 0
    position: int = 0


def text_parts(
    file: InputFile, file_index: int, columns: Columns, limits: Limits, start: Start, wanted: Callable[[int], bool]
) -> Iterator[Part | int]:
    """Yield the wanted parts of a file in order, and at its end the number of its parts.

    Raises BadInput when a column is missing. What cannot be read from some byte on is a bad row of the last part.
    """
    try:
        reader, parse = _open(file, start, limits)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise
        if wanted(start.index):
            whole = BadRow(start.row, f"{UNCOUNTED}the file cannot be read: {error}", uncounted=True)
            yield Part(file, file_index, start.index, start.row, 1, True, 0, empty_table(columns), bad=[whole])
        yield start.index + 1
        return
    between = delimiter_of(file) if file.format in DELIMITERS else ""
    index, row, last = start.index, start.row, False
    while not last:
        most = limits.rows if file.most is None else min(limits.rows, file.most - row)
        is_wanted = wanted(index)
        tables: list[pa.Table] = []
        bad: list[BadRow] = []
        behind = row
        for records in _pieces(reader, most, limits.size):
            if is_wanted:
                table, unfit = parse(records, behind, columns)
                tables.append(table)
                bad += [replace(b, raw=raw_of(records[b.row - behind], between)) for b in unfit]
            behind += len(records)
        enough = file.most is not None and behind >= file.most
        last = enough or reader.at_end()
        cut = last and reader.broken and not enough
        broken = [BadRow(behind, UNCOUNTED + reader.broken, uncounted=True)] if cut else []
        if is_wanted:
            table = _joined(tables, columns, row, behind)
            rows = behind - row + len(broken)
            through = min(1.0, reader.position / max(1, file.size))
            yield Part(file, file_index, index, row, rows, last, reader.position, table, through, bad + broken)
        index, row = index + 1, behind
    yield index


def _joined(tables: list[pa.Table], columns: Columns, first_row: int, behind: int) -> pa.Table:
    if len(tables) < 2:
        return tables[0] if tables else empty_table(columns)
    schema = table_schema(columns)
    # For other inputs than texts it holds what they are made of.
    schema = schema.set(schema.get_field_index(TEXT), tables[0].schema.field(TEXT))
    try:
        return together(tables, schema)
    except pa.ArrowTypeError as error:
        raise BadInput(
            f"rows {first_row} to {behind - 1} of a file have no common type: {error}; "
            "leave such a column out with --keep"
        ) from None


def _pieces(reader: Any, rows: int, size: int) -> Iterator[list[Any]]:
    """Yield the next records, no more than these together, some MiB at a time: parsing takes several times that."""
    end = reader.position + size
    while rows and (left := end - reader.position) > 0 and (records := reader.take(rows, min(left, PARSED_BYTES))):
        rows -= len(records)
        yield records


def some_lines_of(file: InputFile, limits: Limits) -> Iterator[tuple[list[Line], str]]:
    """Yield the lines of a file, as many as a part may have at a time, each with why no more can be read ("": no)."""
    try:
        reader, _ = _open(file, Start(), limits)
    except (OSError, pa.ArrowException) as error:
        if not file.blames(error):
            raise
        yield [], f"the file cannot be read: {error}"
        return
    lines: list[Line] = reader.take(limits.rows, limits.size)
    while not reader.at_end():
        yield lines, ""
        lines = reader.take(limits.rows, limits.size)
    yield lines, reader.broken


def parsed_lines(lines: Sequence[Line], first_row: int, columns: Columns, form: str) -> Parsed:
    """Return lines as a table and the bad ones among them. form: of the files, jsonl or txt."""
    if not lines:
        return empty_table(columns), []
    table, bad = (parse_json if form == "jsonl" else parse_lines)(lines, first_row, columns)
    return table, [replace(b, raw=raw_of(lines[b.row - first_row], "")) for b in bad]


def first_lines(file: InputFile, limits: Limits) -> list[bytes]:
    """Return some lines from the beginning of a file, whole ones that are not too long. Raises BadInput for UTF-16."""
    with _open_stream(file) as stream:
        _check_encoding(stream.read(1024), file)
    return next(some_lines(file, limits, 1), [])


def some_lines(file: InputFile, limits: Limits, size: int) -> Iterator[list[bytes]]:
    """Yield lines of a file, some at a time, until they were `size` bytes; without those that are too long."""
    reader = LineReader(_open_stream(file), 0, limits.row_size, file.blames)
    while reader.position < size and (lines := reader.take(1000, 1 << 20)):
        yield [line.removeprefix(BYTE_ORDER_MARK) for line in lines if not isinstance(line, TooLong)]


def count_rows(file: InputFile, limits: Limits, most: int) -> tuple[int, int]:
    """Return how many lines or records of a file hold its first `most` rows, and the rows in them."""
    reader, _ = _open(file, Start(), limits)
    taken = rows = 0
    while rows < most and (records := reader.take(min(most - rows, limits.rows), limits.size)):
        taken += len(records)
        rows += sum(
            not isinstance(record, bytes) or file.format != "jsonl" or bool(record.strip()) for record in records
        )
    return taken, rows


def delimiter_of(file: InputFile) -> str:
    """Return what separates the fields of a CSV file."""
    return file.dialect.delimiter or DELIMITERS[file.format]


def read_header(line: bytes, form: str, delimiter: str = "") -> list[str]:
    """Return the names of the columns in the first line of a CSV file."""
    text = line.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    try:
        return next(csv.reader([text], delimiter=delimiter or DELIMITERS[form]), [])
    except csv.Error as error:
        reason = "its lines end with CR alone: make that LF" if "\r" in text.rstrip("\r\n") else error
        raise BadInput(f"the header of a {form} file cannot be read: {reason}") from None


def _open(file: InputFile, start: Start, limits: Limits) -> tuple[Any, Callable[[Sequence[Any], int, Columns], Parsed]]:
    """Return the reader of records at the start, and the function that parses them."""
    if file.format not in DELIMITERS:
        stream, position = _open_at(file, start.position)
        return LineReader(
            stream, position, limits.row_size, file.blames
        ), parse_json if file.format == "jsonl" else parse_lines
    first = LineReader(_open_stream(file), 0, limits.row_size, file.blames)
    line = next(iter(first.take(1, 1)), None)
    if isinstance(line, TooLong):
        raise BadInput(f"{file.name}: the header has {line.size} bytes")
    header = [] if line is None else read_header(line, file.format, delimiter_of(file))
    stream, position = _open_at(file, max(start.position, first.position))
    lines_after = LineReader(stream, position, limits.row_size, file.blames)
    reader = CsvReader(lines_after, limits.row_size, delimiter_of(file))
    return reader, csv_parser(header, file.name)


def _check_encoding(begin: bytes, file: InputFile) -> None:
    """Raise BadInput where the first bytes of a file are UTF-16, which would be rows of strange characters."""
    marked = begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if marked or (begin and begin.count(0) * 3 >= len(begin)):
        raise BadInput(f"{file.name} is UTF-16 or no text at all: --encoding utf-16 says so where it is")


def _open_stream(file: InputFile) -> Any:
    stream = file.open_stream()
    return InUtf8(stream, file.dialect.encoding) if file.dialect.encoding else stream


def _open_at(file: InputFile, position: int) -> tuple[Any, int]:
    """Return the content of a file from a byte on, and that byte: behind the byte order mark where there is one."""
    stream = _open_stream(file)
    seekable = PurePosixPath(file.path.lower()).suffix not in COMPRESSED and not file.dialect.encoding
    if position == 0:
        begin = stream.read(1024)
        _check_encoding(begin, file)
        position = len(BYTE_ORDER_MARK) if begin.startswith(BYTE_ORDER_MARK) else 0
        if not seekable:
            stream = _open_stream(file)
    if seekable:
        stream.seek(position)
        here = file.is_local or file.content is not None
        # Each read of an object store is a request: let them be large.
        return stream if here else pa.BufferedInputStream(stream, REQUEST), position
    rest = position
    while rest and (block := stream.read(min(rest, 1 << 20))):
        rest -= len(block)
    return stream, position
