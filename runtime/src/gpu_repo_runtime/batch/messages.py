"""What the job says to people, apart from the bar. Imports no framework, so that help and wrong options are quick."""

import sys

from tqdm import tqdm

from ..words import words_of
from .addresses import masked


def say(text: str) -> None:
    """Write a line for people to the standard error output, above a bar if there is one."""
    tqdm.write(f"job: {masked(text)}", file=sys.stderr)


def one_line(error: BaseException) -> str:
    """Return an error in one line, with its kind first."""
    text = " ".join(words_of(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
