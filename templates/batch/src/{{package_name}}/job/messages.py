"""What the job says to people, apart from the bar. Imports no framework, so that help and wrong options are quick."""

import sys

from tqdm import tqdm

from .addresses import masked


def say(text: str) -> None:
    """Write a line for people to the standard error output, above a bar if there is one."""
    tqdm.write(f"job: {masked(text)}", file=sys.stderr)
