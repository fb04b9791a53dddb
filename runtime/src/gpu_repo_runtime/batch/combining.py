"""Small files of the input as one part: a part costs some milliseconds, however small it is."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from .commontypes import together
from .exits import BadInput
from .inputs import COMPRESSED, InputFile
from .lines import Line
from .parts import ROW, UNCOUNTED, BadRow, Columns, Limits, Part, table_schema
from .reading import errors_named, read_parts
from .textfiles import Start, all_lines, parsed_lines

# With fewer files nothing is gained.
FEW_FILES = 64
# Files share a part up to these bytes for each row that a part may have: hardly any row is shorter.
BYTES_OF_A_ROW = 32
# How many times larger the content of a compressed file may be.
COMPRESSION = 10
# For each shard, so that there is work for all of them.
LEAST_UNITS = 8
READERS = 16

Unit = tuple[InputFile, ...]
# What is read of a file: its lines, and why there are no more of them; or parts.
Piece = tuple[list[Line], str] | list[Part]


def units_of(files: Sequence[InputFile], columns: Columns, limits: Limits, shards: int) -> list[Unit]:
    """Return the files in their order, small ones that follow one another together: each of those makes one part.

    It is the same for the same plan.
    """
    if len(files) < FEW_FILES:
        return [(file,) for file in files]
    weights = [_weight(file) for file in files]
    room = min(limits.size, limits.rows * BYTES_OF_A_ROW, sum(weights) // (shards * LEAST_UNITS))
    units: list[list[InputFile]] = []
    left = 0
    for file, weight in zip(files, weights, strict=True):
        if weight <= left and _fit_together(units[-1][-1], file, columns):
            units[-1].append(file)
            left -= weight
        else:
            units.append([file])
            left = room - weight
    return list(map(tuple, units))


def read_together(unit: Unit, index: int, columns: Columns, limits: Limits, begin: Callable[[InputFile], None]) -> Part:
    """Return the files of unit `index` as one part. Its rows are counted on from file to file. Raises BadInput.

    begin: called with each file before it is read.
    """

    in_lines = unit[0].format in ("jsonl", "txt") and not columns.folders

    def read(file: InputFile) -> Piece:
        begin(file)
        if in_lines:
            with errors_named(file):
                return all_lines(file, limits)
        found = read_parts(file, index, columns, limits, Start(), lambda _: True)
        return [part for part in found if isinstance(part, Part)]

    if isinstance(unit[0].filesystem, fs.LocalFileSystem):
        return _joined(unit, index, map(read, unit), columns)
    # Each file of an object store takes a while, in which another one can be read.
    with ThreadPoolExecutor(READERS, "reader") as pool:
        return _joined(unit, index, pool.map(read, unit), columns)


class _Rows:
    """The rows of one file after the other. Lines are parsed together, which for each file alone takes longer."""

    def __init__(self, columns: Columns, form: str) -> None:
        self._columns, self._form = columns, form
        self._lines: list[Line] = []
        self.tables: list[pa.Table] = []
        self.bad: list[BadRow] = []
        self.count = 0

    def add(self, part: Part, begin: int) -> None:
        """Take a part of a file whose first row is row `begin` here."""
        place = part.table.schema.get_field_index(ROW)
        self.tables.append(part.table.set_column(place, ROW, pc.add(part.table[ROW], begin)))
        self.bad += [replace(one, row=one.row + begin) for one in part.bad]
        self.count += part.rows

    def add_lines(self, lines: list[Line], broken: str) -> None:
        """Take the lines of a file."""
        self._lines += lines
        if broken:
            self.parse()
            self.bad.append(BadRow(self.count, UNCOUNTED + broken, uncounted=True))
            self.count += 1

    @property
    def next_row(self) -> int:
        """Return the number of the row that comes next."""
        return self.count + len(self._lines)

    def parse(self) -> None:
        """Parse the lines that wait for it."""
        table, bad = parsed_lines(self._lines, self.count, self._columns, self._form)
        self.tables.append(table)
        self.bad += bad
        self.count += len(self._lines)
        self._lines = []


def _joined(unit: Unit, index: int, found: Iterator[Piece], columns: Columns) -> Part:
    rows, begins = _Rows(columns, unit[0].format), []
    for piece in found:
        begins.append(rows.next_row)
        if isinstance(piece, tuple):
            rows.add_lines(*piece)
            continue
        for part in piece:
            rows.add(part, begins[-1])
    if rows.next_row > rows.count or not rows.tables:
        rows.parse()
    try:
        table = together(rows.tables, table_schema(columns)).combine_chunks()
    except pa.ArrowTypeError as error:
        raise BadInput(
            f"{unit[0].name} to {unit[-1].name} have no common type: {error}; "
            "leave it out with --keep and another --output"
        ) from None
    members = tuple(zip(begins, unit, strict=True))
    return Part(unit[0], index, 0, 0, rows.count, True, 0, table, bad=rows.bad, members=members)


def _weight(file: InputFile) -> int:
    compressed = PurePosixPath(file.path.lower()).suffix in COMPRESSED
    return max(1, file.size) * (COMPRESSION if compressed else 1)


def _fit_together(a: InputFile, b: InputFile, columns: Columns) -> bool:
    """Tell whether two files are read alike and their rows mean the same to the model."""
    alike = a.format == b.format != "parquet" and a.dialect == b.dialect and a.filesystem is b.filesystem
    if not alike or a.most is not None or b.most is not None:
        return False
    if columns.typed is None:
        return True
    # Files of CSV may lack columns, each others. Addresses are relative to the data file, and folders are columns.
    same_folder = _folders(a) == _folders(b) or not (columns.typed.files or columns.typed.folders)
    return a.format == "jsonl" and same_folder


def _folders(file: InputFile) -> tuple[PurePosixPath, PurePosixPath]:
    return PurePosixPath(file.path).parent, PurePosixPath(file.name).parent
