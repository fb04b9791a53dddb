"""Reader of CSV: pyarrow reads lines without quotes, Python's `csv` all others and those that pyarrow rejects."""

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from .columns import Columns, empty_as_null, is_utf8, text_column
from .exits import BadInput
from .parts import BadRow, InputFile, Limits, Parsed, Piece
from .text import Damaged, assembled, blocks, too_long

DELIMITERS = {"csv": ",", "tsv": "\t"}
# The cells of a record, or why it has none, and its bytes.
Record = tuple[list[str] | str, bytes]


class CsvReader:
    """Reads a file. A quote that is never closed makes the rest of the file unreadable; blank lines have no number."""

    def __init__(self, file: InputFile, columns: Columns | None, limits: Limits) -> None:
        """columns: None to look at the header and the first records only. Raises Damaged."""
        self._file, self._columns, self._limit = file, columns, limits.row_size
        csv.field_size_limit(max(limits.row_size, csv.field_size_limit()))
        self._delimiter = file.dialect.delimiter or DELIMITERS[file.format]
        self._mark = mark = file.dialect.mark
        how: Any = {"quotechar": mark.decode()} if mark else {"quoting": csv.QUOTE_NONE}
        self._nulls = pa.array([*file.dialect.nulls], pa.string())
        self._blocks = blocks(file, limits.row_size)
        self._begin, self._through = next(self._blocks, (b"", 1.0))
        self._lines: deque[bytes] = deque()
        self._used: list[bytes] = []
        self._records = csv.reader(self._texts(), delimiter=self._delimiter, strict=True, **how)
        self._damage = ""
        self.header = list(file.dialect.header) or self._read_header()
        if columns is not None and (self.header or self._begin):
            columns.check(file.name, self.header)
            place = {name: n for n, name in enumerate(self.header)}
            self._own = {name: place[name] for name in columns.own if name in place}
            self._kept_at = [place[name] for name in columns.kept.names]
            self._needed = sorted({*self._own.values(), *self._kept_at})

    def _read_header(self) -> list[str]:
        self._lines.extend(self._begin.split(b"\n"))
        cells, _ = self._record() or (self._damage, b"")
        self._begin = b"\n".join(self._lines)
        self._lines.clear()
        if isinstance(cells, str):
            raise BadInput(f"{self._file.name}: the header cannot be read: {cells}")
        if not is_utf8("".join(cells)):
            raise BadInput(f"{self._file.name}: the header is not UTF-8: --encoding names another")
        return cells

    def first_cells(self) -> list[list[str]]:
        """Return the cells of each column in the first MiB, without the words for null."""
        records = [cells for cells, _ in self._by_csv(self._begin) if len(cells) == len(self.header)]
        columns = zip(*records, strict=True) if records else [()] * len(self.header)
        nulls = self._file.dialect.nulls
        return [[cell for cell in cells if cell not in nulls and is_utf8(cell)] for cells in columns]

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows of the file. Raises Damaged."""
        row = 0
        for block, through in chain([(self._begin, self._through)], self._blocks):
            if self._mark and self._mark in block:
                records = self._by_csv(block)
                count, load = len(records), partial(self._parsed, records, row)
            else:
                block, ends = _lines_of(block)
                count, load = len(ends), partial(self._parsed_lines, block, ends, row)
            if count:
                yield Piece(row, count, len(block), through, load)
            row += count
            if self._damage:
                raise Damaged(self._damage)

    def _texts(self) -> Iterator[str]:
        """Yield lines for Python's `csv`, of the next block where a record goes on there."""
        while True:
            if not self._lines:
                block = next(self._blocks, (b"", 1.0))[0]
                if not block:
                    return
                self._lines.extend(block.removesuffix(b"\n").split(b"\n"))
            self._used.append(self._lines.popleft())
            yield self._used[-1].decode("utf-8", "surrogateescape") + "\n"

    def _by_csv(self, block: bytes) -> list[Record]:
        """Return the records that begin in a block."""
        found: list[Record] = []
        self._lines.extend(block.removesuffix(b"\n").split(b"\n"))
        while self._lines and (record := self._record()):
            if record[0]:
                found.append(record)
        return found

    def _record(self) -> Record | None:
        """Return the next record, with no cells for a blank line; None where a quote is not closed."""
        self._used.clear()
        try:
            cells: list[str] | str = next(self._records, [])
        except csv.Error as error:
            if "end of data" in str(error):
                self._damage = "a quote is not closed; if quotes are a part of the text, add --quote none"
                return None
            cells = f"not CSV: {error}"
        return cells, b"\n".join(self._used).removesuffix(b"\r")

    def _parsed_lines(self, block: bytes, ends: np.ndarray, first: int) -> Parsed:
        table = self._by_pyarrow(block, ends)
        if table is None:
            return self._parsed(self._by_csv(block), first)
        cells = {n: table.column(str(n)).combine_chunks() for n in self._needed}
        rows = range(first, first + len(table))
        lines = cache(lambda: block.split(b"\n"))
        return self._assembled(rows, cells, {}, lambda row: lines()[row - first].removesuffix(b"\r"))

    def _by_pyarrow(self, block: bytes, ends: np.ndarray) -> pa.Table | None:
        """Return the cells of lines without quotes, None where pyarrow does not read them as one record each."""
        has_cr = b"\r" in block and block.count(b"\r") != block.count(b"\r\n")
        if has_cr or b"\0" in block or np.diff(ends, prepend=-1).max() - 1 > self._limit:
            return None
        needed = list(map(str, self._needed))
        try:
            table = pcsv.read_csv(
                pa.BufferReader(block),
                pcsv.ReadOptions(
                    use_threads=False, block_size=len(block) + 1, column_names=list(map(str, range(len(self.header))))
                ),
                pcsv.ParseOptions(delimiter=self._delimiter, quote_char=False),
                pcsv.ConvertOptions(column_types=dict.fromkeys(needed, pa.string()), include_columns=needed),
            )
        except pa.ArrowInvalid:
            return None
        return table if len(table) == len(ends) else None

    def _parsed(self, records: Sequence[Record], first: int) -> Parsed:
        bad, rows, good = {}, [], []
        for row, (cells, raw) in enumerate(records, first):
            reason = cells if isinstance(cells, str) else self._why_bad(cells)
            if len(raw) > self._limit:
                bad[row] = too_long(row, self._limit)
            elif isinstance(cells, str) or reason:
                bad[row] = BadRow(row, reason, raw=raw)
            else:
                rows.append(row)
                good.append(cells)
        columns = list(zip(*good, strict=True)) or [()] * len(self.header)
        arrays = {n: pa.array(columns[n], pa.string()) for n in self._needed}
        return self._assembled(rows, arrays, bad, lambda row: records[row - first][1])

    def _why_bad(self, cells: list[str]) -> str:
        if len(cells) != len(self.header):
            return f"{len(cells)} fields where the header has {len(self.header)}"
        wrong = [name for name, cell in zip(self.header, cells, strict=True) if not is_utf8(cell)]
        return f"column {wrong[0]!r} is not UTF-8: --encoding names another" if wrong else ""

    def _assembled(self, rows: Sequence[int], cells: dict[int, pa.Array], bad: dict[int, BadRow], raw: Any) -> Parsed:
        assert self._columns
        if len(self._nulls):
            cells = {n: pc.if_else(pc.is_in(one, self._nulls), None, one) for n, one in cells.items()}
        if not self._columns.text:
            texts = {one.column for one in self._columns.fields if one.kind == "text"}
            own = [cells[n] if name in texts else empty_as_null(cells[n]) for name, n in self._own.items()]
            inputs = pa.StructArray.from_arrays(own, list(self._own)) if own else pa.array([{}] * len(rows))
        else:
            inputs = cells[self._own[self._columns.text]].fill_null("")
        schema = self._columns.kept
        kept = [text_column(cells[n], field) for n, field in zip(self._kept_at, schema, strict=True)]
        return assembled(rows, inputs, kept, schema, bad, {}, raw)


def _lines_of(block: bytes) -> tuple[bytes, np.ndarray]:
    """Return lines without the blank ones, and the places of the LF that each of them ends with."""
    if not block.endswith(b"\n"):
        block += b"\n"
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    if np.diff(ends, prepend=-1).min() <= 2:
        lines = [line + b"\n" for line in block.split(b"\n") if line.strip(b"\r")]
        block, ends = b"".join(lines), np.cumsum([len(line) for line in lines], dtype=np.int64) - 1
    return block, ends
