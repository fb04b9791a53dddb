"""What the job says to people, apart from the bar. Imports no framework, so that help and wrong options are quick."""

import sys

from ..words import words_of
from .addresses import masked


def say(text: str) -> None:
    """Write a line for people to the standard error output, above a bar if there is one."""
    line = f"job: {masked(text)}"
    # Only a bar that is there has to make room.
    if bars := getattr(sys.modules.get("tqdm"), "tqdm", None):
        bars.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr)


def one_line(error: BaseException) -> str:
    """Return an error in one line, with its kind first."""
    text = " ".join(words_of(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
