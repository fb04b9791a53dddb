"""What the job says to people, apart from the bar. Imports no framework, so that help and wrong options are quick."""

import contextlib
import re
import sys
import traceback
from pathlib import Path

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
    """Return an error in one line, with its kind first, and last the line of the project that it comes from."""
    text = " ".join(words_of(error).split())
    files = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    own = [(file, number) for file, number in files if "/src/" in file and "gpu_repo_runtime" not in file]
    place = f" ({Path(own[-1][0]).name}, line {own[-1][1]})" if own else ""
    return f"{type(error).__name__}{text and ': '}{text[:300]}{place}"
