"""What the program prints. A reader that goes away, or a full disk behind it, does not change what was done."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from .git_calls import UpdateError


def tell(text: str, stream: TextIO, written: bool) -> None:
    """Print `text`; `written` says that the update is in the repository, whatever becomes of the words about it.

    Raises UpdateError where nothing was written and the words cannot be.
    """
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:  # `| head`: who reads has read enough
        silence(stream)
    except OSError as error:
        silence(stream)
        if not written:
            raise UpdateError(f"the output cannot be written: {error.strerror}") from error
        if stream is not sys.stderr:
            tell(f"update: it is written, but its report could not be: {error.strerror}", sys.stderr, written)


def silence(stream: TextIO) -> None:
    """Let nothing more fail on a stream, at the end of the program neither."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
