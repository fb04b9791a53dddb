"""Readers of text files: blocks of whole lines, unpacked and in UTF-8; plain lines, and JSON Lines."""

import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import Columns, Fitted, is_utf8, json_column
from .exits import BadInput
from .parts import COMPRESSED, INPUT, LINE_COLUMN, ROW, BadRow, InputFile, Limits, Parsed, Piece

BLOCK_BYTES = 1 << 20
UNPACKED_AT_ONCE = 64 << 10
# Errors of files that are damaged, or that cannot be reached.
BROKEN = (OSError, EOFError, UnicodeError, zlib.error, pa.ArrowException)
_MARK = b"\xef\xbb\xbf"


class Damaged(Exception):
    """The rest of a file cannot be read; the message says why."""


def blocks(file: InputFile, limit: int) -> Iterator[tuple[bytes, float]]:
    """Yield about a MiB of lines at a time, and which share of the file is read, 0 to 1. Raises Damaged.

    limit: the bytes of a line; a longer one is cut, and is still longer than that.
    """
    read, place = _open(file)
    rest, is_first = b"", True
    while True:
        chunks, left, damage = [rest], BLOCK_BYTES, None
        try:
            while left > 0 and (chunk := read()):
                chunks.append(chunk)
                left -= len(chunk)
        except BROKEN as error:
            # The chunk before the damage is lost with it.
            damage = damage_of(file, error, "the file cannot be read from here on")
        block, is_over = b"".join(chunks), left > 0 and damage is None
        if is_first:
            block, is_first = _begun(file, block), False
        end = len(block) if is_over else block.rfind(b"\n") + 1
        if end:
            yield block[:end], place() / max(1, file.size)
        if damage:
            raise damage
        if is_over:
            return
        rest = _cut(block[end:], limit, file.dialect.mark)


def damage_of(file: InputFile, error: Exception, what: str) -> Damaged:
    """Return why the rest of a file cannot be read. Raises the error of a disk or network that fails."""
    if isinstance(error, UnicodeError):
        what = f"the file is not {file.dialect.encoding} from here on"
    elif not file.blames(error) and not isinstance(error, EOFError | zlib.error):
        raise error
    if "CRC" in str(error):
        what += ", and the rows before may be damaged too"
    return Damaged(f"{what}: {' '.join(str(error).split())}")


def _open(file: InputFile) -> tuple[Callable[[], bytes], Callable[[], int]]:
    """Return functions that return the next bytes of the text, and how many bytes of the file are read."""
    codec = COMPRESSED.get("." + file.path.lower().rpartition(".")[2])
    if codec and not file.size:
        raise Damaged("the file cannot be read: an archive of 0 bytes, without even its header")
    stream: Any = file.open()
    unpacked = stream
    try:
        if codec == "gzip":
            # Reads several archives one after the other, and zeros behind them.
            unpacked = gzip.GzipFile(fileobj=stream)
        elif codec:
            unpacked = pa.CompressedInputStream(stream, codec)
    except BROKEN as error:
        raise damage_of(file, error, "the file cannot be read") from error
    size = UNPACKED_AT_ONCE if codec else BLOCK_BYTES
    found = io.BufferedReader(unpacked, size)
    if not file.dialect.encoding:
        return lambda: found.read1(size), stream.tell
    text = io.TextIOWrapper(found, file.dialect.encoding, errors="surrogateescape", newline="")
    return lambda: text.read(size).encode("utf-8", "surrogateescape"), stream.tell


def _begun(file: InputFile, block: bytes) -> bytes:
    begin = block[:1024]
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")) or begin.count(0) * 3 >= max(1, len(begin)):
        raise BadInput(f"{file.name} is UTF-16 or not text: if it is UTF-16, add --encoding utf-16")
    return block.removeprefix(_MARK)


def _cut(rest: bytes, limit: int, mark: bytes) -> bytes:
    """Return the begin of a line, cut if it is too long; an odd number of quotes stays odd, so that CSV goes on."""
    if len(rest) <= limit:
        return rest
    return rest[: limit + 1] + mark * (rest.count(mark, limit + 1) % 2)


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError("a number that is too large for a double")
    return found


# Raises ValueError for a number that no double holds.
JSON = json.JSONDecoder(parse_float=_finite)


class LineReader:
    """Reads a file of lines. A blank line of JSON Lines has a number and is not a row."""

    def __init__(self, file: InputFile, columns: Columns, limits: Limits) -> None:
        self._file, self._columns, self._limit = file, columns, limits.row_size
        self._kept = columns.kept

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows of the file. Raises Damaged."""
        row = 0
        for block, through in blocks(self._file, self._limit):
            lines = block.removesuffix(b"\n").split(b"\n")
            yield Piece(row, len(lines), len(block), through, partial(self._parsed, lines, row))
            row += len(lines)

    def _parsed(self, lines: Sequence[bytes], first: int) -> Parsed:
        read = self._json if self._file.format == "jsonl" else lambda line: (line.removesuffix("\r"), (), "")
        bad: dict[int, BadRow] = {}
        found: list[Any] = []
        reasons: dict[int, str] = {}
        for row, line in enumerate(lines, first):
            if len(line) > self._limit:
                bad[row] = too_long(row, self._limit)
                continue
            try:
                if one := read(line.decode()):
                    reasons |= {len(found): one[2]} if one[2] else {}
                    found.append((row, *one[:2]))
                continue
            except UnicodeDecodeError as error:
                why = f"not UTF-8: {error.reason} at byte {error.start}"
            except (ValueError, RecursionError) as error:
                why = f"not JSON: {error}"
            bad[row] = BadRow(row, why, raw=line.removesuffix(b"\r"))
        rows, inputs, values = zip(*found, strict=True) if found else ((), (), ())
        texts = pa.array(inputs, pa.string())
        if self._file.format == "txt":
            kept: list[Fitted] = [(texts, {}) for _ in self._kept]
            if not self._columns.text:
                texts = pa.StructArray.from_arrays([texts], [LINE_COLUMN])
        else:
            kept = [json_column([one[n] for one in values], field) for n, field in enumerate(self._kept)]
        own = partial(assembled, rows, texts, kept, self._kept, bad, reasons)
        return own(lambda row: lines[row - first].removesuffix(b"\r"))

    def _json(self, text: str) -> Any:
        """Return the input and the kept values of a line, and why it is a bad row; None for a blank line.

        Raises ValueError.
        """
        if not text.strip():
            return None
        column, names = self._columns.text, self._kept.names
        if not column and not names:
            return text, (), ""
        record = JSON.decode(text)
        if not isinstance(record, dict):
            raise ValueError(f"expected a JSON object, got {type(record).__name__}")
        found, why = record.get(column) if column else text, ""
        if found is None:
            why = f"no value in column {column!r}"
        elif not isinstance(found, str):
            why = f"column {column!r} holds {type(found).__name__} where it needs text"
        elif column and not is_utf8(found):
            why = f"column {column!r} is not UTF-8"
        return "" if why else found, [record.get(name) for name in names], why


def too_long(row: int, limit: int) -> BadRow:
    """Return the bad row that a row of more bytes than the limit is."""
    return BadRow(row, f"the row has more than {limit} bytes, see --max-row-bytes")


def assembled(
    rows: Sequence[int],
    inputs: pa.Array,
    kept: Sequence[Fitted],
    schema: pa.Schema,
    bad: dict[int, BadRow],
    reasons: dict[int, str],
    raw: Callable[[int], bytes | None],
) -> Parsed:
    """Return rows as a table, without those that have no input, or kept values that do not fit their columns.

    bad: rows that are not among them. reasons: place -> why a row has no input. raw: returns the bytes of a row.
    """
    reasons = {place: why for _, found in kept for place, why in found.items()} | reasons
    arrays = [pa.array(rows, pa.int64()), inputs, *(array for array, _ in kept)]
    table = pa.table(arrays, names=[ROW, INPUT, *schema.names])
    if reasons:
        values = table.select(schema.names).take(pa.array(list(reasons), pa.int64())).to_pylist()
        for (place, why), own in zip(reasons.items(), values, strict=True):
            row = rows[place]
            bad[row] = BadRow(row, why, raw=raw(row), kept=own)
        table = table.take(np.delete(np.arange(len(rows)), list(reasons)))
    return table, [bad[row] for row in sorted(bad)]
