"""Names of files, answers and what git says are UTF-8, whatever locale a program of the update was started in."""

from __future__ import annotations

import os
import sys


def in_utf8() -> None:
    """Begin this process anew in UTF-8 where the locale has another encoding; Python does so itself for C and POSIX."""
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8":
        return
    os.environ["PYTHONUTF8"] = "1"  # for the programs that this one starts
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
