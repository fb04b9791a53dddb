"""Build step: give files one fixed time, so that the same content makes the same layer on any day.

As a program: file_times.py SECONDS ROOT...   (SECONDS since 1970: when the build step began)
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

FILE_TIME = 1577836800  # 2020-01-01: any fixed time will do
SKIPPED = ("/proc", "/sys", "/dev", "/build", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def set_times(roots: Iterable[Path], since: float) -> None:
    """Set the fixed time on every file, folder and link under the roots that changed at `since` or later.

    What is older lies in lower layers or has the time that its package gave it: touching it would copy it.
    """
    for root in roots:
        for folder, folders, files in os.walk(root, topdown=True):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in SKIPPED]
            for path in [folder, *(os.path.join(folder, name) for name in files + folders)]:
                if path not in SKIPPED and os.lstat(path).st_mtime >= since:
                    os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)


if __name__ == "__main__":
    set_times((Path(argument) for argument in sys.argv[2:]), since=float(sys.argv[1]))
