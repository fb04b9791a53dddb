"""Parts of a text file: JSON Lines, CSV or plain lines, compressed or not."""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from .exits import BadInput
from .inputs import COMPRESSED, InputFile
from .lines import LineReader, TooLong
from .parts import UNCOUNTED, BadRow, Columns, Limits, Part, empty_table
from .records import BYTE_ORDER_MARK, CsvReader, Parsed, csv_parser, parse_json, parse_lines

DELIMITERS = {"csv": ",", "tsv": "\t"}


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
    reader, parse = _open(file, start, limits)
    index, row, last = start.index, start.row, False
    while not last:
        records = reader.take(limits.rows, limits.size)
        last = reader.at_end()
        broken = (
            [BadRow(row + len(records), UNCOUNTED + reader.broken, uncounted=True)] if last and reader.broken else []
        )
        if wanted(index):
            table, bad = parse(records, row, columns) if records else (empty_table(columns), [])
            rows = len(records) + len(broken)
            through = min(1.0, reader.position / max(1, file.size))
            yield Part(file, file_index, index, row, rows, last, reader.position, table, through, bad + broken)
        index, row = index + 1, row + len(records)
    yield index


def first_lines(file: InputFile, limits: Limits) -> list[bytes]:
    """Return some lines from the beginning of a file, whole ones that are not too long."""
    lines = LineReader(_open_stream(file), 0, limits.row_size, file.blames).take(1000, 1 << 20)
    return [line.removeprefix(BYTE_ORDER_MARK) for line in lines if not isinstance(line, TooLong)]


def read_header(line: bytes, form: str) -> list[str]:
    """Return the names of the columns in the first line of a CSV file."""
    text = line.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    return next(csv.reader([text], delimiter=DELIMITERS[form]), [])


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
    header = [] if line is None else read_header(line, file.format)
    stream, position = _open_at(file, max(start.position, first.position))
    lines_after = LineReader(stream, position, limits.row_size, file.blames)
    reader = CsvReader(lines_after, limits.row_size, DELIMITERS[file.format])
    return reader, csv_parser(header, file.name)


def _open_stream(file: InputFile) -> Any:
    if file.path.lower().endswith(COMPRESSED):
        return file.filesystem.open_input_stream(file.path, compression="detect", buffer_size=1 << 20)
    return file.filesystem.open_input_file(file.path)


def _open_at(file: InputFile, position: int) -> tuple[Any, int]:
    """Return the content of a file from a byte on, and that byte: behind the byte order mark where there is one."""
    stream = _open_stream(file)
    if position == 0:
        position = len(BYTE_ORDER_MARK) if stream.read(3) == BYTE_ORDER_MARK else 0
        stream = _open_stream(file)
    if not file.path.lower().endswith(COMPRESSED):
        stream.seek(position)
        local = isinstance(file.filesystem, fs.LocalFileSystem)
        # Each read of an object store is a request: let them be large.
        return stream if local else pa.BufferedInputStream(stream, 8 << 20), position
    rest = position
    while rest and (block := stream.read(min(rest, 1 << 20))):
        rest -= len(block)
    return stream, position
