"""Build step: give files one fixed time, so that the same content makes the same layer on any day.

As a program: file_times.py ROOT...   (works on what the running build step changed)
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

FILE_TIME = 1577836800  # 2020-01-01: any fixed time will do
RECENT = FILE_TIME + 86400 * 365 * 5  # what a build writes is younger; files that packages brought keep their time
SKIPPED = ("/proc", "/sys", "/dev", "/mnt", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def set_times(roots: Iterable[Path], newer_than: float = RECENT) -> None:
    """Set the fixed time on every file, folder and link under the roots that is younger than `newer_than` (seconds)."""
    for root in roots:
        for folder, folders, files in os.walk(root, topdown=True):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in SKIPPED]
            for path in [folder, *(os.path.join(folder, name) for name in files + folders)]:
                if path not in SKIPPED and os.lstat(path).st_mtime > newer_than:
                    os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)


if __name__ == "__main__":
    set_times(Path(argument) for argument in sys.argv[1:])
