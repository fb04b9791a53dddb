"""Small files of the input that share parts: a part costs some milliseconds, however small it is."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from .commontypes import together
from .exits import BadInput
from .inputs import COMPRESSED, InputFile
from .lines import Line, line_size
from .parts import ROW, TEXT, UNCOUNTED, BadRow, Columns, Limits, Part, table_schema
from .reading import errors_named, read_parts
from .textfiles import Start, parsed_lines, some_lines_of

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


def units_of(files: Sequence[InputFile], columns: Columns, limits: Limits, shards: int) -> list[Unit]:
    """Return the files in their order, small ones that follow one another together: they share parts.

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


def parts_together(
    unit: Unit,
    index: int,
    columns: Columns,
    limits: Limits,
    begin: Callable[[InputFile], InputFile],
    wanted: Callable[[int], bool],
) -> Iterator[Part]:
    """Yield the wanted parts of the files of unit `index`, mostly one. Rows are counted on from file to file.

    begin: called with each file before it is read; returns what to read. Raises BadInput.
    """
    if unit[0].is_local:
        yield from _parts(unit, map(begin, unit), index, columns, limits, wanted)
        return
    # Each file of an object store takes a while, in which another one can be fetched.
    with ThreadPoolExecutor(READERS, "reader") as pool:
        yield from _parts(unit, pool.map(begin, unit), index, columns, limits, wanted)


def _parts(
    unit: Unit,
    files: Iterator[InputFile],
    index: int,
    columns: Columns,
    limits: Limits,
    wanted: Callable[[int], bool],
) -> Iterator[Part]:
    rows, number = _Rows(unit[0].format, columns, limits), 0
    for piece in _pieces(files, index, columns, limits):
        if rows.is_full_before(piece):
            if wanted(number):
                yield rows.as_part(unit, index, number, False)
            rows, number = rows.following(), number + 1
        rows.add(piece)
    if wanted(number):
        yield rows.as_part(unit, index, number, True)


def _pieces(files: Iterator[InputFile], index: int, columns: Columns, limits: Limits) -> Iterator["_Piece"]:
    for file in files:
        if file.format in ("jsonl", "txt") and not columns.folders:
            with errors_named(file):
                first = True
                for lines, broken in some_lines_of(file, limits):
                    yield _Piece(file, first, lines=lines, broken=broken)
                    first = False
            continue
        for part in read_parts(file, index, columns, limits, Start(), lambda _: True):
            if isinstance(part, Part):
                yield _Piece(file, part.index == 0, part=part)


@dataclass(frozen=True)
class _Piece:
    """What is read of a file at once: lines, and why there are no more of them; or a part."""

    file: InputFile
    first: bool
    lines: list[Line] = field(default_factory=list)
    broken: str = ""
    part: Part | None = None

    @property
    def rows(self) -> int:
        """Return how many rows it counts."""
        return self.part.rows if self.part else len(self.lines) + bool(self.broken)

    @property
    def size(self) -> int:
        """Return about how many bytes it has in memory."""
        return self.part.table.nbytes if self.part else sum(map(line_size, self.lines))

    @property
    def form(self) -> pa.DataType | None:
        """Return the type of what goes to the model, None where that is nothing, or lines."""
        return self.part.table.schema.field(TEXT).type if self.part and len(self.part.table) else None


class _Rows:
    """The rows of a part, from one file after the other. Lines are parsed together, which for each file takes longer.

    first_row: the number of the part's first row in all files together.
    """

    def __init__(
        self,
        format_: str,
        columns: Columns,
        limits: Limits,
        first_row: int = 0,
        begin: tuple[int, InputFile] | None = None,
    ) -> None:
        self._format, self._columns, self._limits = format_, columns, limits
        self._first_row = self._parsed = first_row
        self._begins = [begin] if begin else []
        self._carried = begin is not None
        self._lines: list[Line] = []
        self._size = 0
        self._form: pa.DataType | None = None
        self._tables: list[pa.Table] = []
        self._bad: list[BadRow] = []

    @property
    def _next_row(self) -> int:
        return self._parsed + len(self._lines)

    def is_full_before(self, piece: _Piece) -> bool:
        """Tell whether another part begins with a piece: this one would be too large, or the types are others."""
        count = self._next_row - self._first_row
        too_large = count + piece.rows > self._limits.rows or self._size + piece.size > self._limits.size
        other = None not in (self._form, piece.form) and self._form != piece.form
        return bool(count) and (too_large or other)

    def following(self) -> "_Rows":
        """Return the rows of the next part."""
        begin = self._begins[-1] if self._begins else None
        return _Rows(self._format, self._columns, self._limits, self._next_row, begin)

    def add(self, piece: _Piece) -> None:
        """Take a piece of a file."""
        if piece.first and self._carried:
            # That file has ended with the part before this one.
            self._begins = []
        self._carried = False
        if piece.first:
            self._begins.append((self._next_row, piece.file))
        self._size += piece.size
        self._form = self._form or piece.form
        if piece.part:
            self._add_part(piece.part, self._begins[-1][0])
            return
        self._lines += piece.lines
        if piece.broken:
            self._parse()
            self._bad.append(BadRow(self._parsed, UNCOUNTED + piece.broken, uncounted=True))
            self._parsed += 1

    def as_part(self, unit: Unit, index: int, number: int, last: bool) -> Part:
        """Return the part. Raises BadInput when its files have no common type."""
        count = self._next_row - self._first_row
        self._parse()
        schema = table_schema(self._columns)
        if self._form is not None:
            schema = schema.set(schema.get_field_index(TEXT), pa.field(TEXT, self._form))
        try:
            table = together(self._tables, schema).combine_chunks()
        except pa.ArrowTypeError as error:
            names = f"{self._begins[0][1].name} to {self._begins[-1][1].name}"
            raise BadInput(
                f"{names} have no common type: {error}; leave it out with --keep and another --output"
            ) from None
        members = tuple(self._begins)
        through = 1.0 if last else unit.index(members[-1][1]) / len(unit)
        return Part(members[0][1], index, number, self._first_row, count, last, 0, table, through, self._bad, members)

    def _add_part(self, part: Part, begin: int) -> None:
        if len(part.table):
            place = part.table.schema.get_field_index(ROW)
            self._tables.append(part.table.set_column(place, ROW, pc.add(part.table[ROW], begin)))
        self._bad += [replace(one, row=one.row + begin) for one in part.bad]
        self._parsed += part.rows

    def _parse(self) -> None:
        if not self._lines:
            return
        table, bad = parsed_lines(self._lines, self._parsed, self._columns, self._format)
        self._tables.append(table)
        self._bad += bad
        self._parsed += len(self._lines)
        self._lines = []


def _weight(file: InputFile) -> int:
    compressed = PurePosixPath(file.path.lower()).suffix in COMPRESSED
    return max(1, file.size) * (COMPRESSION if compressed else 1)


def _fit_together(a: InputFile, b: InputFile, columns: Columns) -> bool:
    """Tell whether two files are read alike and their rows mean the same to the model."""
    alike = a.format == b.format and a.dialect == b.dialect and a.filesystem is b.filesystem
    if not alike or a.most is not None or b.most is not None:
        return False
    if columns.typed is None:
        return True
    # Addresses are relative to the data file, and folders are columns.
    return _folders(a) == _folders(b) or not (columns.typed.files or columns.typed.folders)


def _folders(file: InputFile) -> tuple[PurePosixPath, PurePosixPath]:
    return PurePosixPath(file.path).parent, PurePosixPath(file.name).parent
