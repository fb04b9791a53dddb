"""Files of another encoding than UTF-8, read as if they were UTF-8."""

import codecs
from typing import Any, Self

from pyarrow import ArrowInvalid

_BROKEN = "gpu_repo_runtime.broken"
BLOCK = 1 << 18


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Stand for bytes that are not text with a byte that is not UTF-8, so that their row is a bad one."""
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error(_BROKEN, _mark)


class InUtf8:
    """The content of a binary stream in UTF-8; it can be read and not sought in."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(_BROKEN)
        self._ready = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""
        while not self._ready and not self._ended:
            block = self._stream.read(BLOCK)
            self._ended = not block
            try:
                self._ready = self._decoder.decode(block, self._ended).encode("utf-8", "surrogateescape")
            except UnicodeError as error:
                # UTF-16 without its mark: no error handler is asked.
                raise ArrowInvalid(str(error)) from None
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
