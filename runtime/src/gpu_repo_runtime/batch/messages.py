"""What the job says to people, apart from the bar. Imports no framework, so that help and wrong options are quick."""

import contextlib
import re
import sys

from ..words import words_of

# Up to the last @ before the path. A password may hold a slash that nobody escaped; a port is not one.
_PASSWORD = re.compile(r"(\w://[^/@:\s]*:)(?:[^/\s]*|(?!\d+/)\S*)@")


def masked(text: str) -> str:
    """Return the text with *** in place of the password in each scheme://user:password@host."""
    return _PASSWORD.sub(r"\1***@", text)


def say(text: str) -> None:
    """Write a line for people to the standard error output, above a bar if there is one."""
    line = f"job: {masked(text)}"
    # The reader of the output may have gone; that is no reason to end the job.
    with contextlib.suppress(OSError, ValueError):
        # Only a bar that is there has to make room.
        if bars := getattr(sys.modules.get("tqdm"), "tqdm", None):
            bars.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr)


def one_line(error: BaseException) -> str:
    """Return an error in one line, with its kind first."""
    text = " ".join(words_of(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
