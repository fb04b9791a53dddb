"""Lines of text files: unpacked, in UTF-8, and no longer than a row may be."""

import gzip
import io
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .exits import BadInput
from .inputs import COMPRESSED, InputFile

BYTES_AT_ONCE = 1 << 20
UNPACKED_AT_ONCE = 64 << 10
# Errors of files that are damaged, or that cannot be reached.
BROKEN = (OSError, EOFError, UnicodeError, zlib.error, pa.ArrowException)
_MARK = b"\xef\xbb\xbf"


class Lines:
    """The lines of a text file. `broken` is the reason why the rest of the file cannot be read."""

    def __init__(self, file: InputFile, limit: int) -> None:
        """limit: the bytes of a line; of a longer one only the beginning is returned, and its size is in `long`."""
        self._file, self._limit = file, limit
        self.broken = ""
        self.long: dict[bytes, int] = {}
        try:
            self._stream: Any = _open(file)
        except BROKEN as error:
            self._break(error, "the file cannot be read")

    def next(self) -> bytes:
        """Return the next line with its end, b"" behind the last one."""
        try:
            line: bytes = self._stream.readline(self._limit + 2)
            if len(line) > self._limit + 1 and not line.endswith(b"\n"):
                size = len(line)
                while (rest := self._stream.readline(BYTES_AT_ONCE)) and not rest.endswith(b"\n"):
                    size += len(rest)
                self.long[line] = size + max(0, len(rest) - 1)
            return line
        except BROKEN as error:
            self._break(error, "the file cannot be read from here on")
            return b""

    def buffered(self, count: int) -> list[bytes]:
        """Return at most `count` of the lines that are in memory already, without their ends; [] if there are none.

        They are not taken: `skip` does that.
        """
        try:
            *lines, _ = self._stream.peek(1).split(b"\n", count) if hasattr(self._stream, "peek") else [b""]
            return lines
        except BROKEN:
            return []  # `next` meets the same error

    def skip(self, lines: Sequence[bytes]) -> None:
        """Take lines that `buffered` has returned."""
        self._stream.read(sum(map(len, lines)) + len(lines))

    def _break(self, error: Exception, what: str) -> None:
        if isinstance(error, UnicodeError):
            what = f"the file is not {self._file.dialect.encoding} from here on"
        elif not self._file.blames(error) and not isinstance(error, EOFError | zlib.error):
            raise error
        if "CRC" in str(error):
            what += ", and the rows before may be damaged too"
        self.broken, self._stream = f"{what}: {' '.join(str(error).split())}", io.BytesIO()


def _open(file: InputFile) -> Any:
    """Return the content of a text file in UTF-8, unpacked."""
    stream = file.open()
    codec = COMPRESSED.get("." + file.path.lower().rpartition(".")[2])
    if codec and not file.size:
        raise EOFError("an archive of 0 bytes, without even its header")
    if codec == "gzip":
        # Reads several archives one after the other, and zeros behind them.
        stream = gzip.GzipFile(fileobj=stream)
    elif codec:
        stream = pa.CompressedInputStream(stream, codec)
    # What a damaged archive becomes is not a row: the last bytes before the damage are dropped.
    found: Any = io.BufferedReader(stream, UNPACKED_AT_ONCE if codec else BYTES_AT_ONCE)
    if file.dialect.encoding:
        return _InUtf8(io.TextIOWrapper(found, file.dialect.encoding, errors="surrogateescape", newline=""))
    begin = found.peek(1024)[:1024]
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")) or begin.count(0) * 3 >= max(1, len(begin)):
        raise BadInput(f"{file.name} is UTF-16 or not text: if it is UTF-16, add --encoding utf-16")
    if begin.startswith(_MARK):
        found.read(len(_MARK))
    return found


class _InUtf8(io.RawIOBase):
    """Lines of another encoding as lines of UTF-8."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return a line."""
        return self._text.readline(size or -1).removeprefix("\ufeff").encode("utf-8", "surrogateescape")
