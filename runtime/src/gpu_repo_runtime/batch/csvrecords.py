"""Records of CSV, some at a time, from the lines of a file of any size."""

import csv
import io
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

from .lines import LineReader, TooLong, too_long

Record = list[str] | str
# A line as it goes to the CSV reader, and its bytes.
Fed = tuple[str | TooLong, int]


class Broken(str):
    """Why a line is not a record; `raw` is the line, None where it was not kept."""

    raw: bytes | None

    def __new__(cls, reason: str, raw: bytes | None) -> Self:
        """Return the reason with the line."""
        made = super().__new__(cls, reason)
        made.raw = raw
        return made


def raw_of(record: Any, delimiter: str) -> bytes | None:
    """Return a line or a record as it was in the file, up to the quotes of CSV; None where that is not known."""
    if isinstance(record, bytes):
        return record
    if isinstance(record, list):
        line = io.StringIO()
        # Only what ends its lines is put in quotes by the writer of older Pythons.
        csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(record)
        return line.getvalue().removesuffix("\r\n").encode("utf-8", "surrogateescape")
    return record.raw if isinstance(record, Broken) else None


class _LineTooLong(Exception):
    """The CSV reader has come to a line that was not kept."""


class CsvReader:
    """Reads records of CSV, whose fields may hold line ends when quoted. `position` is the byte after them.

    Where a quote is not closed, or text follows a closed one, the line on which the record begins is a broken record,
    and the next one begins on the line after it. A record that is larger than allowed is a broken one as a whole.
    """

    def __init__(self, lines: LineReader, limit: int, delimiter: str) -> None:
        self._lines = lines
        self.position = self._read = lines.position
        csv.field_size_limit(max(limit, csv.field_size_limit()))
        self._limit = limit
        self._delimiter = delimiter
        self._fed: list[Fed] = []
        self._again: deque[Fed] = deque()
        self._records = self._reader()
        self._ahead: Record | None = None
        self._advance()

    def take(self, count: int, budget: int) -> list[Record]:
        """Return the next records, at most `count` and about `budget` bytes; a broken one is its reason."""
        taken: list[Record] = []
        end = self.position + budget
        while self._ahead is not None and len(taken) < count and self.position < end:
            taken.append(self._ahead)
            self.position = self._read
            self._advance()
        return taken

    def at_end(self) -> bool:
        """Tell whether no record is left."""
        return self._ahead is None

    @property
    def broken(self) -> str:
        """Say why the rest of the file cannot be read."""
        return self._lines.broken

    def _advance(self) -> None:
        try:
            while True:
                self._fed.clear()
                self._ahead = next(self._records, None)
                if self._ahead != []:
                    break
            if self._ahead is not None and self._fed_size() > self._limit:
                self._ahead = too_long(TooLong(self._fed_size()))
            return
        except _LineTooLong:
            whole = self._ends()
            self._ahead = too_long(TooLong(self._fed_size())) if whole else self._broken("a quote that is not closed")
            if whole:
                self._records = self._reader()
                return
        except csv.Error as error:
            self._ahead = self._broken(str(error))
        self._read -= sum(size for _, size in self._fed[1:])
        self._again.extendleft(reversed(self._fed[1:]))
        self._records = self._reader()

    def _broken(self, reason: str) -> "Broken":
        line = self._fed[0][0]
        raw = line.removesuffix("\n").encode("utf-8", "surrogateescape") if isinstance(line, str) else None
        return Broken(f"no CSV: {reason}", raw)

    def _fed_size(self) -> int:
        return sum(size for _, size in self._fed) - 1

    def _ends(self) -> bool:
        """Take the rest of a record in which a line was not kept; tell whether it ends."""
        is_open = len(self._fed) > 1
        is_open ^= _quotes(self._fed[-1][0]) % 2 == 1
        most = self._fed_size() + self._limit
        while is_open and self._fed_size() <= most and (self._again or self._more()):
            line = self._again.popleft()
            self._read += line[1]
            self._fed.append(line)
            is_open ^= _quotes(line[0]) % 2 == 1
        return not is_open

    def _reader(self) -> Iterator[list[str]]:
        return csv.reader(self._texts(), delimiter=self._delimiter, strict=True)

    def _texts(self) -> Iterator[str]:
        fed = self._fed
        while self._again or self._more():
            line = self._again.popleft()
            self._read += line[1]
            fed.append(line)
            if isinstance(line[0], TooLong):
                raise _LineTooLong
            yield line[0]

    def _more(self) -> bool:
        for line in self._lines.take(1000, 1 << 20):
            if isinstance(line, TooLong):
                self._again.append((line, 1 + line.size))
            else:
                self._again.append((line.decode("utf-8", "surrogateescape") + "\n", 1 + len(line)))
        return bool(self._again)


def _quotes(line: str | TooLong) -> int:
    return line.quotes if isinstance(line, TooLong) else line.count('"')
