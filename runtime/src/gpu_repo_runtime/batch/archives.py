"""Archives that are broken somewhere, and those that pyarrow takes for broken and gzip does not."""

import gzip
import re
import zlib
from collections.abc import Callable
from typing import Any, Self

from pyarrow import ArrowException

_AT_ONCE = 1 << 18
# How gzip, Zstandard, bzip2 and LZ4 say that there is something else where an archive may begin or end: its checksum
# was right then. Behind other errors stands what nobody has checked, as the text that a damaged block becomes.
_BEHIND_A_WHOLE_ONE = re.compile("incorrect header check|Unknown frame descriptor|no magic|frameType_unknown")


class _Closing:
    """What reads from a stream and closes it."""

    _stream: Any

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Unpacked(_Closing):
    """The content of a compressed file. What is whole in front of something else comes first, then the error.

    opened: returns the content from the beginning on. An error that `blames` does not blame on the content is raised.
    """

    def __init__(self, opened: Callable[[], Any], blames: Callable[[Exception], bool]) -> None:
        self._opened, self._blames = opened, blames
        self._stream = opened()
        self._given = 0
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""
        if self._error:
            raise self._error
        try:
            block = bytes(self._stream.read(size))
        except (OSError, ArrowException) as error:
            if not (self._blames(error) and _BEHIND_A_WHOLE_ONE.search(str(error))):
                raise
            self._error = error
            block = self._before_the_error(size)
            if not block:
                raise
        self._given += len(block)
        return block

    def _before_the_error(self, size: int) -> bytes:
        """Return what can be read in front of the place where an attempt to read more has failed."""
        self.close()
        self._stream = self._opened()
        found = bytearray()
        try:
            rest = self._given
            while rest:
                rest -= len(self._stream.read(min(rest, _AT_ONCE)))
            while len(found) < size and (byte := self._stream.read(1)):
                found += byte
        except (OSError, ArrowException):
            pass
        return bytes(found)


class Gunzipped(_Closing):
    """The content of a gzip file, behind which zeros may follow. What is wrong with it is an OSError, as of pyarrow."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._content = gzip.GzipFile(fileobj=stream, mode="rb")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""
        try:
            return self._content.read(size)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None
