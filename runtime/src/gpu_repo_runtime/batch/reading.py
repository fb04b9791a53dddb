"""From the input's files to parts: the units, and the parts of a unit that are still to be done."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .exits import BadInput, refusal
from .inputs import COMPRESSED, InputFile
from .parquet import ParquetReader
from .parts import FILE, INPUT, ROW, UNCOUNTED, BadRow, Columns, Limits, Part
from .readers import AT_ONCE, DELIMITERS, CsvReader, LineReader, counted
from .textstreams import BROKEN, BYTES_AT_ONCE

# With fewer files, each of them is a unit.
FEW_FILES = 64
# Units for each shard, so that there is work for all of them.
LEAST_UNITS = 8
# Small files are one unit up to these bytes for each row that a part may have: hardly any row is shorter.
BYTES_OF_A_ROW = 32
# How many times larger the content of a compressed file may be.
COMPRESSION = 10

Unit = tuple[InputFile, ...]


def units_of(files: Sequence[InputFile], columns: Columns, limits: Limits, shards: int) -> list[Unit]:
    """Return the files in their order, small ones that follow one another together. The same for the same plan."""
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


def _weight(file: InputFile) -> int:
    is_compressed = PurePosixPath(file.path.lower()).suffix in COMPRESSED
    return max(1, file.size) * (COMPRESSION if is_compressed else 1)


def _fit_together(one: InputFile, other: InputFile, columns: Columns) -> bool:
    """Tell whether two files are read alike and their rows mean the same to the model."""
    if one.format != other.format or one.most is not None or other.most is not None:
        return False
    typed = columns.typed
    if typed and one.format == "parquet" and not set(typed.columns) <= set(typed.required) & set(columns.inputs.names):
        # A column that one of them lacks has its default there, and columns of several types stay apart.
        return False
    # Addresses are relative to the data file, and names of folders are columns.
    return not (typed and (typed.files or typed.folders)) or _folders(one) == _folders(other)


def _folders(file: InputFile) -> tuple[PurePosixPath, PurePosixPath]:
    return PurePosixPath(file.path).parent, PurePosixPath(file.name).parent


def read_parts(
    unit: Unit, number: int, columns: Columns, limits: Limits, wanted: Callable[[int], bool]
) -> Iterator[Part]:
    """Yield the wanted parts of a unit. Raises BadInput."""
    cutter = _Cutter(unit, number, limits, wanted)
    for place, file in enumerate(unit):
        with errors_named(file):
            read = _parquet if file.format == "parquet" else _text
            for row, count, size, table, bad in read(file, columns, limits, cutter, alone=len(unit) == 1):
                for part in cutter.add(file, row, count, size, _with_folders(table, file, columns), bad):
                    part.join(columns)
                    yield part
            cutter.end_file(file)
            cutter.through = (place + 1) / len(unit)
    if last := cutter.end():
        last.join(columns)
        yield last


@contextmanager
def errors_named(file: InputFile) -> Iterator[None]:
    """Raise BadInput for a file that has gone, BadConfiguration for one that may not be read."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"{file.name} was there at the start and is gone now") from None
    except OSError as error:
        raise refusal(file.name, error) from error


class _Cutter:
    """Cuts the rows of a unit into parts. A part is yielded when it is known whether another one follows.

    ends: the rows behind the parts, where they are known before the rows are read. through: the share of the unit that
    has been read.
    """

    def __init__(self, unit: Unit, number: int, limits: Limits, wanted: Callable[[int], bool]) -> None:
        self._unit, self._number, self._limits, self._wanted = unit, number, limits, wanted
        self._part = Part(number, 0, [])
        self._position = 0
        self._last: InputFile | None = None
        self.ends: list[int] = []
        self.through = 0.0

    @property
    def room(self) -> tuple[int, int]:
        """Return the rows and bytes that fit into the current part; a full one counts as empty."""
        rows, size = self._limits.rows - self._part.rows, self._limits.size - self._part.size
        return (rows, size) if rows > 0 and size > 0 else (self._limits.rows, self._limits.size)

    @property
    def is_wanted(self) -> bool:
        """Tell whether the next row is of a wanted part."""
        return self._wanted(self._part.index + self._is_full)

    @property
    def _is_full(self) -> bool:
        if self.ends:
            return self._position >= self.ends[self._part.index]
        return self._part.rows >= self._limits.rows or self._part.size >= self._limits.size

    def wants(self, begin: int, end: int) -> bool:
        """Tell whether one of these rows is of a wanted part; True where that is not known."""
        if not self.ends:
            return True
        starts = [0, *self.ends]
        return any(self._wanted(index) for index, stop in enumerate(self.ends) if starts[index] < end and stop > begin)

    def add(
        self, file: InputFile, row: int, count: int, size: int, table: pa.Table | None, bad: list[BadRow]
    ) -> Iterator[Part]:
        """Add `count` rows of a file; the good ones are in `table`, None where they were not read."""
        while count:
            if self._is_full and (part := self._close(last=False)):
                yield part
            part = self._part
            room = self.ends[part.index] - self._position if self.ends else self._limits.rows - part.rows
            taken = min(count, room)
            end = row + taken
            if file not in part.files[-1:]:
                part.files.append(file)
            self._last = file
            if table is not None:
                own = table if taken == count else table.filter(pc.less(table[ROW], end))
                part.tables.append(own.add_column(0, FILE, pa.repeat(pa.scalar(file.name, pa.string()), len(own))))
                table = table.slice(len(own))
            part.bad += [one.within(row, end, file) for one in bad if one.row < end and one.row + one.count > row]
            part.rows, part.size, size = part.rows + taken, part.size + size, 0
            self._position += taken
            row, count = end, count - taken

    def end_file(self, file: InputFile) -> None:
        """Note a file, even if it has no rows."""
        if file is not self._last:
            self._part.files.append(file)

    def end(self) -> Part | None:
        """Return the last part, if it is wanted."""
        return self._close(last=True)

    def _close(self, last: bool) -> Part | None:
        part, self._part = self._part, Part(self._number, self._part.index + 1, [])
        part.last, part.files = last, part.files or [self._unit[-1]]
        part.through = 1.0 if last else self.through
        return part if self._wanted(part.index) else None


_Read = Iterator[tuple[int, int, int, pa.Table | None, list[BadRow]]]


def _text(file: InputFile, columns: Columns, limits: Limits, cutter: _Cutter, alone: bool) -> _Read:
    reader = (CsvReader if file.format in DELIMITERS else LineReader)(file, columns, limits)
    row, most, read = 0, float("inf") if file.most is None else file.most, 0
    while row < most:
        rows, room = cutter.room
        some = reader.take(int(min(rows, most - row, AT_ONCE)), min(room, BYTES_AT_ONCE))
        if not some:
            break
        size = reader.size_of(some)
        read += size
        if alone:
            cutter.through = min(1.0, read / max(1, file.size))
        table, bad = reader.parse(some, row) if cutter.is_wanted else (None, [])
        yield row, len(some), size, table, bad
        row += len(some)
    if reader.broken and row < most:
        yield row, 1, 0, None, [BadRow(row, UNCOUNTED + reader.broken, uncounted=True)]


def _parquet(file: InputFile, columns: Columns, limits: Limits, cutter: _Cutter, alone: bool) -> _Read:
    reader = ParquetReader(file, columns, limits)
    if alone and reader.cut:
        cutter.ends = reader.cut.ends
    for piece in reader.pieces(cutter.wants):
        row, count, table, bad = piece
        if alone and reader.cut:
            cutter.through = (row + count) / max(1, reader.rows)
        yield row, count, table.nbytes if table is not None and not alone else 0, table, bad


def _with_folders(table: Any, file: InputFile, columns: Columns) -> Any:
    """Return the rows with the kept columns that the names of folders contain."""
    if table is None or not columns.folders:
        return table
    for name in columns.folders:
        if name not in file.partitions:
            raise BadInput(f"{file.name}: no column {name!r}, which the folders of other files contain")
        table = table.append_column(name, pa.repeat(pa.scalar(file.partitions[name], pa.string()), len(table)))
    return table.select([ROW, INPUT, *columns.kept.names])


def first_rows(files: list[InputFile], count: int, limits: Limits) -> list[InputFile]:
    """Return the files that contain the first rows of the input, the last of them cut behind them."""
    found = []
    for file in files:
        if not count:
            break
        rows, used = _count(file, count, limits)
        count -= used
        found.append(replace(file, most=rows))
    return found


def _count(file: InputFile, most: int, limits: Limits) -> tuple[int, int]:
    try:
        if file.format == "parquet":
            rows = min(most, int(pq.read_metadata(file.open()).num_rows))
            return rows, rows
        return counted(file, limits, most)
    except BROKEN as error:
        if not file.blames(error):
            raise
        return 1, 1
