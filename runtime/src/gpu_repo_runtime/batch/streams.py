"""The job outlives whoever reads what it says: a closed or broken standard output or error is not a reason to end."""

import os
import sys
from typing import Any, TextIO


class Lasting:
    """A standard stream of which nothing is said to anyone any more once nobody reads it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or go on without."""
        try:
            return len(text) if self._stream.closed else self._stream.write(text)
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, or go on without."""
        try:
            # What the model, or a library of it, has closed is not written any more.
            if not self._stream.closed:
                self._stream.flush()
        except OSError:
            self._drop()

    def close(self) -> None:
        """Go on: it is the job's, whatever the model does with it."""
        self.flush()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


_KEPT: dict[str, Lasting] = {}


def put_back() -> None:
    """Put back what the model, or a library of it, has taken away of the standard output and error."""
    for name, stream in _KEPT.items():
        found = getattr(sys, name)
        if found is None or getattr(found, "closed", False):
            setattr(sys, name, stream)


def open_closed() -> None:
    """Open the null device where a standard stream is closed, so that no file of the job gets its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it stays open


def outlive_readers() -> None:
    """Go on when the standard output or error cannot be written any more."""
    # A name of a file may be one that the locale has no signs for.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    _KEPT.update(stdout=Lasting(sys.stdout), stderr=Lasting(sys.stderr))
    sys.stdout, sys.stderr = _KEPT["stdout"], _KEPT["stderr"]
