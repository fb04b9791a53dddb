"""From the files of units to parts: those that are still to be done."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import Columns
from .csvfile import DELIMITERS, CsvReader
from .exits import BadInput, refusal
from .inputs import Watch
from .ordering import Sorted
from .parquet import ParquetReader
from .parts import FILE, ROW, UNCOUNTED, BadRow, InputFile, Limits, Part, Piece, Todo, Unit
from .text import Damaged, LineReader


def read_units(
    units: Iterable[tuple[int, Unit]], columns: Columns, limits: Limits, todo: Todo, watch: Watch
) -> Iterator[Sorted]:
    """Yield the parts to do of numbered units, sorted by length. Raises BadInput."""
    for number, unit in units:
        watch.check(unit)
        for part in _parts(unit, _Cutter(number, limits, partial(todo.wants, number)), columns, limits):
            yield Sorted.of(part.joined(columns.kept), columns)


def _parts(unit: Unit, cutter: "_Cutter", columns: Columns, limits: Limits) -> Iterator[Part]:
    for place, file in enumerate(unit):
        with errors_named(file):
            for piece in pieces_of(file, columns, limits):
                for part in cutter.add(file, piece):
                    part.through = (place + piece.through) / len(unit)
                    yield part
            cutter.part.note(file)
    if cutter.wanted(cutter.part.index):
        cutter.part.last, cutter.part.through = True, 1.0
        yield cutter.part


def pieces_of(file: InputFile, columns: Columns, limits: Limits) -> Iterator[Piece]:
    """Yield the rows of a file, or the first ones for --limit; the unknown rows behind damage are one bad row."""
    reader_of: Any = {"parquet": ParquetReader, **dict.fromkeys(DELIMITERS, CsvReader)}.get(file.format, LineReader)
    row, end = 0, float("inf") if file.most is None else file.most
    try:
        for piece in reader_of(file, columns, limits).pieces():
            row = piece.row + piece.count
            yield piece if row <= end else replace(piece, count=int(end - piece.row))
            if row >= end:
                return
    except Damaged as damage:
        bad = BadRow(row, f"{UNCOUNTED}{damage}", uncounted=True)
        yield Piece(row, 1, 0, 1.0, lambda: (None, [bad]))


@contextmanager
def errors_named(file: InputFile) -> Iterator[None]:
    """Raise BadInput for a file that is damaged or has gone, BadConfiguration for one that may not be read."""
    try:
        yield
    except Damaged as damage:
        raise BadInput(f"{file.name}: {damage}") from damage
    except FileNotFoundError:
        raise BadInput(f"{file.name} was there at the start and is gone now") from None
    except OSError as error:
        raise refusal(file.name, error) from error


class _Cutter:
    """Cuts the rows of a unit into parts. A part is yielded when it is known that another one follows."""

    def __init__(self, number: int, limits: Limits, wanted: Callable[[int], bool]) -> None:
        self._limits, self.wanted = limits, wanted
        self.part = Part(number, 0, [])

    def add(self, file: InputFile, piece: Piece) -> Iterator[Part]:
        """Add rows of a file; they are read where one of their parts is wanted."""
        runs = self._runs(piece)
        table, bad = piece.load() if any(self.wanted(part.index) for part, _, _ in runs) else (None, [])
        rows = table[ROW].to_numpy() if table is not None else np.zeros(0, np.int64)
        for part, begin, end in runs:
            if part is not self.part:
                done, self.part = self.part, part
                if self.wanted(done.index):
                    yield done
            part.note(file)
            if self.wanted(part.index):
                part.bad += [replace(one, file=file.name) for one in bad if begin <= one.row < end]
                first, last = np.searchsorted(rows, [begin, end])
                if table is not None and last > first:
                    own = table.slice(first, last - first)
                    part.tables.append(own.add_column(0, FILE, pa.repeat(pa.scalar(file.name, pa.string()), len(own))))

    def _runs(self, piece: Piece) -> list[tuple[Part, int, int]]:
        """Return which rows go into which part: (part, first row, row behind the last)."""
        part, mean, found = self.part, piece.size / piece.count, []
        row, end = piece.row, piece.row + piece.count
        while row < end:
            room = self._limits.rows - part.rows
            if mean:
                room = min(room, int((self._limits.size - part.size) / mean))
            if room < 1 and part.rows:
                part = Part(part.unit, part.index + 1, [])
                continue
            count = min(end - row, max(1, room))
            found.append((part, row, row + count))
            part.rows, part.size, row = part.rows + count, part.size + count * mean, row + count
        return found


def first_rows(files: list[InputFile], count: int, columns: Columns, limits: Limits) -> list[InputFile]:
    """Return the files that contain the first rows of the input, the last of them cut behind them."""
    found = []
    for file in files:
        if count:
            found.append(replace(file, most=count))
            with errors_named(file):
                count -= sum(piece.count for piece in pieces_of(found[-1], columns, limits))
    return found
