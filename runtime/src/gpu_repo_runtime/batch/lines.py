"""Lines of a file of any size, read block by block, with the byte at which each run of lines ends."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pyarrow import ArrowException

# Where a broken archive cannot be read any more, up to as much in front of it is lost.
BLOCK = 1 << 18


@dataclass(frozen=True)
class TooLong:
    """Stands for a line that was longer than allowed and was not kept; `size` is in bytes, `quotes` those in it."""

    size: int
    quotes: int = 0


Line = bytes | TooLong


def line_size(line: Line) -> int:
    """Return the bytes of a line."""
    return len(line) if isinstance(line, bytes) else line.size


class LineReader:
    r"""Reads lines from a binary stream. `position` is the byte after the last line that `take` returned.

    A line ends with \n, which is left off; the last one may lack it. `broken` says why the rest of the file cannot be
    read, as in a truncated archive; an error that `blames` does not blame on the content is raised instead.
    """

    def __init__(self, stream: Any, position: int, limit: int, blames: Callable[[Exception], bool]) -> None:
        self.position = position
        self.broken = ""
        self._stream = stream
        self._limit = limit
        self._blames = blames
        self._ready: list[Line] = []
        self._next = 0
        self._tail: list[bytes] = []
        self._tail_size = self._tail_quotes = 0
        self._ended = False

    def take(self, count: int, budget: int) -> list[Line]:
        """Return the next lines: at most `count`, at least one, and no more once they hold `budget` bytes."""
        taken: list[Line] = []
        while len(taken) < count and budget > 0 and self._fill():
            piece = self._ready[self._next : self._next + count - len(taken)]
            sizes = list(map(line_size, piece))
            if sum(sizes) > budget:
                end = next(number for number, total in enumerate(accumulate(sizes), 1) if total >= budget)
                piece, sizes = piece[:end], sizes[:end]
            self._next += len(piece)
            taken += piece
            budget -= sum(sizes)
            self.position += sum(sizes) + len(sizes)
        return taken

    def at_end(self) -> bool:
        """Tell whether no line is left."""
        return not self._fill()

    def _fill(self) -> bool:
        """Read until a whole line is ready; return False at the end of the file."""
        while self._next >= len(self._ready) and not self._ended:
            block = self._read()
            self._ended = not block
            pieces = block.split(b"\n") if block else []
            self._ready, self._next = [], 0
            if len(pieces) > 1:
                self._grow(pieces[0])
                self._ready = [self._close(), *map(self._checked, pieces[1:-1])]
            if pieces:
                self._grow(pieces[-1])
            if self._ended and self._tail_size:
                self._ready = [self._close()]
        return self._next < len(self._ready)

    def _read(self) -> bytes:
        try:
            block: bytes = self._stream.read(BLOCK)
            return block
        except (OSError, ArrowException) as error:
            if not self._blames(error):
                raise
            self.broken = f"the file cannot be read from here on: {error}"
            self._tail, self._tail_size, self._tail_quotes = [], 0, 0
            return b""

    def _grow(self, piece: bytes) -> None:
        self._tail_size += len(piece)
        if self._tail_size <= self._limit:
            self._tail.append(piece)
        else:
            self._tail_quotes += sum(kept.count(b'"') for kept in self._tail) + piece.count(b'"')
            self._tail.clear()

    def _close(self) -> Line:
        size, quotes = self._tail_size, self._tail_quotes
        line = b"".join(self._tail) if size <= self._limit else TooLong(size, quotes)
        self._tail, self._tail_size, self._tail_quotes = [], 0, 0
        return line

    def _checked(self, line: bytes) -> Line:
        return line if len(line) <= self._limit else TooLong(len(line), line.count(b'"'))


def too_long(line: TooLong) -> str:
    """Say why a line was not kept."""
    return f"the row has {line.size} bytes, more than --max-row-bytes"
