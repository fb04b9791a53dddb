"""Readers of text files: some rows at a time as a table (row, input, kept columns), and the bad rows."""

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from .columns import json_column, text_column
from .exits import BadInput
from .inputs import InputFile
from .parts import INPUT, LINE_COLUMN, ROW, BadRow, Columns, Limits
from .textstreams import Lines

AT_ONCE = 8192
DELIMITERS = {"csv": ",", "tsv": "\t"}

Parsed = tuple[pa.Table, list[BadRow]]


class LineReader:
    """Reads lines of text, or lines of JSON."""

    def __init__(self, file: InputFile, columns: Columns, limits: Limits) -> None:
        self._file, self._columns, self._limit = file, columns, limits.row_size
        self._kept = columns.in_files
        self._lines = Lines(file, limits.row_size)

    @property
    def broken(self) -> str:
        """Return why the rest of the file cannot be read, "" where it can."""
        return self._lines.broken

    def take(self, count: int, size: int) -> list[Any]:
        """Return the next lines, at most `count`, and no more once they have `size` bytes."""
        lines: list[Any] = []
        while len(lines) < count and size > 0 and (line := self._lines.next()):
            lines.append(line)
            size -= len(line)
        return lines

    def size_of(self, some: Sequence[Any]) -> int:
        """Return the bytes of what was taken."""
        return sum(map(len, some))

    def parse(self, lines: Sequence[Any], first: int) -> Parsed:
        """Return lines as rows, numbered from `first`."""
        parse = self._text if self._file.format == "txt" else self._json
        found: list[Any] = [self._checked(line, parse) for line in lines]
        bad = {first + n: one for n, one in enumerate(found) if isinstance(one, str)}
        good: list[Any] = [(first + n, *one) for n, one in enumerate(found) if isinstance(one, tuple)]
        kept = [
            json_column([one[2][place] for one in good], field)
            if self._file.format == "jsonl"
            else text_column(pa.array([one[2][place] for one in good], pa.string()), field)
            for place, field in enumerate(self._kept)
        ]
        texts = pa.array([one[1] for one in good], pa.string())
        if self._file.format == "txt" and self._columns.typed:
            texts = pa.StructArray.from_arrays([texts], [LINE_COLUMN])
        rows = [one[0] for one in good]
        return assembled(rows, texts, kept, self._kept, bad, lambda row: self._raw(lines[row - first]))

    def _raw(self, line: bytes) -> bytes | None:
        """Return a bad line as it was, None for one that is too long."""
        found = line.rstrip(b"\r\n")
        return found if len(found) <= self._limit else None

    def _checked(self, line: bytes, parse: Any) -> Any:
        size = self._lines.long.pop(line, len(line.removesuffix(b"\n")))
        if size > self._limit:
            return f"the row has {size} bytes, more than --max-row-bytes"
        try:
            return parse(line)
        except UnicodeDecodeError as error:
            return f"not UTF-8: {error.reason} at byte {error.start}"
        except RecursionError:
            return "not JSON: too deep"
        except ValueError as error:
            long = "a number of more than 4300 digits" if "set_int_max_str_digits" in str(error) else error
            return f"not JSON: {long}"

    def _text(self, line: bytes) -> Any:
        text = line.decode().removesuffix("\n").removesuffix("\r")
        return text, [text] * len(self._kept)

    def _json(self, line: bytes) -> Any:
        """Return the input and the kept values of a line, the reason why it is a bad row, or None for a blank one."""
        text = line.decode().removesuffix("\n")
        if not text.strip():
            return None
        typed, names = self._columns.typed, self._kept.names
        if typed and not names:
            return text, []
        record = _JSON.decode(text)
        if typed and typed.line:
            return text, []
        if not isinstance(record, dict):
            return f"expected a JSON object, got {type(record).__name__}"
        found = text if typed else record.get(self._columns.text)
        if found is None:
            return f"no value in column {self._columns.text!r}"
        if not isinstance(found, str):
            return f"column {self._columns.text!r} holds {type(found).__name__} where it needs text"
        if not typed and not is_utf8(found):
            return f"column {self._columns.text!r} is not UTF-8"
        return found, [record.get(name) for name in names]


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError("a number that is too large for a double")
    return found


_JSON = json.JSONDecoder(parse_float=_finite)


class CsvReader(LineReader):
    """Reads records of CSV. A quote that is never closed makes the rest of the file unreadable.

    Lines without a quote are parsed by pyarrow, all others, and blocks that pyarrow rejects, by Python's `csv`.
    """

    def __init__(self, file: InputFile, columns: Columns | None, limits: Limits) -> None:
        """columns: None to count records only."""
        super().__init__(file, columns or Columns("", pa.schema([])), limits)
        csv.field_size_limit(max(limits.row_size, csv.field_size_limit()))
        self._delimiter = delimiter_of(file)
        self._nulls = pa.array([*file.dialect.nulls], pa.string())
        self._fed: list[bytes] = []
        self._next: bytes | None = None
        self._unclosed, self._looks = "", 0
        feed = iter(self._next_line, b"")
        lines = (self._fed.append(line) or line.decode("utf-8", "surrogateescape") for line in feed)  # type: ignore[func-returns-value]
        self._records = csv.reader(lines, delimiter=self._delimiter, strict=True)
        self.header = self._read_header()
        if columns is not None and self.header:
            check_there(file.name, self.header, columns)
        place = {name: n for n, name in enumerate(self.header)}
        own = (columns.typed.columns if columns.typed else [columns.text]) if columns else []
        self._own = {name: place[name] for name in own if name in place}
        self._kept_at = [place[name] for name in self._kept.names] if place else []

    @property
    def broken(self) -> str:
        """Return why the rest of the file cannot be read, "" where it can."""
        return self._unclosed or self._lines.broken

    def _read_header(self) -> list[str]:
        if self._file.dialect.header:
            return list(self._file.dialect.header)
        try:
            return next(self._records, [])
        except csv.Error as error:
            hint = ": its lines end with CR alone, convert them to LF" if "new-line" in str(error) else ""
            raise BadInput(f"{self._file.name}: the header cannot be read: {error}{hint}") from None

    def _next_line(self) -> bytes:
        line, self._next = self._next, None
        return self._lines.next() if line is None else line

    def take(self, count: int, size: int) -> list[Any]:
        """Return the next records: lines as they are where none has a quote, else lists of cells."""
        lines: list[Any] = []
        while len(lines) < count and size > 0 and not self._unclosed:
            if block := self._take_block(count - len(lines), size):
                lines += block
                size -= self.size_of(block)
                continue
            if not (line := self._next_line()):
                break
            if b'"' in line or line in self._lines.long:
                self._next = line
                break
            if line not in (b"\n", b"\r\n"):
                lines.append(line.removesuffix(b"\n"))
                size -= len(line)
        return lines if lines or self._next is None else self._take_records(count, size)

    def _take_block(self, count: int, size: int) -> list[bytes]:
        """Return lines that are in memory already, if none of them needs a closer look."""
        if self._looks or self._next is not None:
            self._looks = max(0, self._looks - 1)
            return []
        lines = self._lines.buffered(count)
        if lines and (whole := self.size_of(lines)) > size:
            lines = lines[: len(lines) * size // whole]
        if not lines:
            return []
        fits = self.size_of(lines) <= size and max(map(len, lines)) <= self._limit
        if not fits or b"" in lines or b"\r" in lines or any(b'"' in line for line in lines):
            # Each of these lines is looked at, and not the block again for each of them.
            self._looks = len(lines)
            return []
        self._lines.skip(lines)
        return lines

    def _take_records(self, count: int, size: int) -> list[Any]:
        records: list[Any] = []
        while len(records) < count and size > 0 and (one := self._record()) is not None:
            records += [one] if one else []
            size -= sum(map(len, self._fed))
        return records

    def _record(self) -> Any:
        """Return a list of cells, (reason, line) for one that is not CSV, [] for a blank line, None at the end."""
        self._fed.clear()
        try:
            one = next(self._records, None)
        except csv.Error as error:
            if "end of data" in str(error):
                self._unclosed = f"a quote is not closed from line {self._records.line_num - len(self._fed) + 1} on"
                return None
            one = (f"not CSV: {error}", b"".join(self._fed))  # type: ignore[assignment]
        if any(line in self._lines.long for line in self._fed):
            return f"the row has more bytes than --max-row-bytes, {self._limit}", None
        return one

    def size_of(self, some: Sequence[Any]) -> int:
        """Return the bytes of what was taken."""
        if isinstance(some[0], bytes):
            return sum(map(len, some)) + len(some)
        return sum(sum(map(len, one)) for one in some if isinstance(one, list))

    def parse(self, lines: Sequence[Any], first: int) -> Parsed:
        """Return records as rows, numbered from `first`."""
        if isinstance(lines[0], bytes):
            table = self._by_pyarrow(lines)
            if table is not None:
                cells = {n: table.column(str(n)).combine_chunks() for n in self._needed}
                return self._assembled(range(first, first + len(lines)), cells, {}, lines, first)
            lines = [self.cells(line) for line in lines]
        bad, rows, good = {}, [], []
        for row, one in enumerate(lines, first):
            if reason := self._wrong(one):
                bad[row] = reason
            else:
                rows.append(row)
                good.append(one)
        columns = list(zip(*good, strict=True)) or [()] * len(self.header)
        cells = {n: pa.array(columns[n], pa.string()) for n in self._needed}
        return self._assembled(rows, cells, bad, lines, first)

    @property
    def _needed(self) -> list[int]:
        return sorted({*self._own.values(), *self._kept_at})

    def _by_pyarrow(self, lines: Sequence[bytes]) -> pa.Table | None:
        """Return the cells of lines without quotes, None where pyarrow does not read them as one record each."""
        block = b"\n".join([*lines, b""])
        if block.count(b"\r") != block.count(b"\r\n") or b"\0" in block or max(map(len, lines)) > self._limit:
            return None
        names = [str(n) for n in range(len(self.header))]
        needed = [str(n) for n in self._needed]
        try:
            table = pcsv.read_csv(
                pa.BufferReader(block),
                pcsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
                pcsv.ParseOptions(delimiter=self._delimiter, quote_char=False),
                pcsv.ConvertOptions(column_types=dict.fromkeys(needed, pa.string()), include_columns=needed),
            )
        except pa.ArrowInvalid:
            return None
        return table if len(table) == len(lines) else None

    def cells(self, line: bytes) -> Any:
        """Return the cells of a line, (reason, line) where it is not CSV."""
        text = line.decode("utf-8", "surrogateescape")
        try:
            return next(csv.reader([text], delimiter=self._delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            return f"not CSV: {error}", line

    def _wrong(self, one: Any) -> str:
        if isinstance(one, tuple):
            return str(one[0])
        if len(one) != len(self.header):
            return f"{len(one)} fields where the header has {len(self.header)}"
        if sum(map(len, one)) > self._limit:
            return f"the row has more bytes than --max-row-bytes, {self._limit}"
        wrong = [name for name, cell in zip(self.header, one, strict=True) if not is_utf8(cell)]
        return f"column {wrong[0]!r} is not UTF-8: --encoding names another" if wrong else ""

    def _assembled(
        self, rows: Sequence[int], cells: dict[int, pa.Array], bad: dict[int, str], some: Sequence[Any], first: int
    ) -> Parsed:
        if len(self._nulls):
            cells = {n: pa.compute.if_else(pa.compute.is_in(one, self._nulls), None, one) for n, one in cells.items()}
        if self._columns.typed:
            own = [cells[n] for n in self._own.values()]
            inputs = pa.StructArray.from_arrays(own, list(self._own)) if own else pa.array([{}] * len(rows))
        else:
            inputs = cells[self._own[self._columns.text]].fill_null("")
        kept = [text_column(cells[n], field) for n, field in zip(self._kept_at, self._kept, strict=True)]
        return assembled(rows, inputs, kept, self._kept, bad, lambda row: raw_of(some[row - first], self._delimiter))


def delimiter_of(file: InputFile) -> str:
    """Return the character between the fields of a CSV file."""
    return file.dialect.delimiter or DELIMITERS[file.format]


def raw_of(record: Any, delimiter: str) -> bytes | None:
    """Return a record of CSV as it was in the file, except for needless quotes."""
    if isinstance(record, bytes):
        return record.rstrip(b"\r\n")
    if isinstance(record, tuple):
        found: bytes | None = record[1]
        return found and found.rstrip(b"\r\n")
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(record)
    return line.getvalue().removesuffix("\r\n").encode("utf-8", "surrogateescape")


def check_there(name: str, there: Sequence[str], columns: Columns) -> None:
    """Raise BadInput where a column is missing, or there twice."""
    for one in columns.names:
        if one not in there and one in columns.required:
            raise BadInput(f"{name}: no column {one!r}; there are {', '.join(there)}{_advice(there)}")
        if list(there).count(one) > 1:
            raise BadInput(f"{name}: {list(there).count(one)} columns {one!r}: which one is meant?")


def _advice(there: Sequence[str]) -> str:
    other = next((mark for mark in ";\t|" if len(there) == 1 and mark in there[0]), None)
    return f" (is {other!r} the delimiter? add --delimiter {other!r})" if other else ""


def assembled(
    rows: Sequence[int],
    inputs: pa.Array,
    kept: Sequence[tuple[pa.Array, dict[int, str]]],
    schema: pa.Schema,
    bad: dict[int, str],
    raw: Any,
) -> Parsed:
    """Return rows as a table, without those whose kept values do not fit their columns."""
    reasons = {place: why for _, found in kept for place, why in found.items()}
    arrays = [pa.array(rows, pa.int64()), inputs, *(array for array, _ in kept)]
    table = pa.table(arrays, names=[ROW, INPUT, *schema.names])
    if reasons:
        bad = bad | {rows[place]: why for place, why in reasons.items()}
        table = table.take(np.delete(np.arange(len(rows)), list(reasons)))
    return table, [BadRow(row, bad[row], raw=raw(row)) for row in sorted(bad)]


def is_utf8(text: str) -> bool:
    """Tell whether a text has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(file: InputFile, limits: Limits, most: int) -> tuple[int, int]:
    """Return how many rows of a text file contain its first `most` rows that are not blank, and how many these are."""
    columns = Columns("", pa.schema([]))
    reader = CsvReader(file, None, limits) if file.format in DELIMITERS else LineReader(file, columns, limits)
    rows = found = 0
    while found < most and (some := reader.take(min(AT_ONCE, most - found), limits.size)):
        rows += len(some)
        found += len(some) if file.format != "jsonl" else sum(bool(line.strip()) for line in some)
    return rows + bool(reader.broken), found + bool(reader.broken)


def first_cells(file: InputFile, limits: Limits, size: int) -> list[tuple[str, list[str]]]:
    """Return the columns of a CSV file: their names and the cells of the first rows, up to a number of bytes."""
    reader, rows = CsvReader(file, None, limits), []
    while size > 0 and (some := reader.take(AT_ONCE, size)):
        size -= reader.size_of(some)
        rows += [reader.cells(one) if isinstance(one, bytes) else one for one in some]
    whole = [row for row in rows if isinstance(row, list) and len(row) == len(reader.header)]
    nulls = file.dialect.nulls
    return [(name, [row[n] for row in whole if row[n] not in nulls]) for n, name in enumerate(reader.header)]
