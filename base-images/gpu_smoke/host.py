"""Read the machine: files below a root, with every fault of the filesystem turned into data."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_READ = 1 << 20


def clean(value: object, limit: int = 4000) -> str:
    """Return ``value`` as printable text of at most ``limit`` characters: no control characters, no lone surrogates."""
    text = value if isinstance(value, str) else str(value)
    text = text[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


class Host:
    """The files that describe the machine.

    ``root`` is put before absolute paths of /dev, /proc, /etc, /usr and alike: tests and recorded machines use it
    (``GPU_SMOKE_ROOT``); it is empty on a real machine.
    """

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def path(self, absolute: str) -> str:
        """Return where ``absolute`` lies below the root."""
        return self.root + absolute

    def shown(self, path: str) -> str:
        """Return ``path`` as the machine itself would name it (without the root)."""
        return path[len(self.root) :] if self.root and path.startswith(self.root + "/") else path

    def exists(self, absolute: str) -> bool:
        """Say whether the entry is there, a dangling link included."""
        try:
            return os.path.lexists(self.path(absolute))
        except (OSError, ValueError):
            return False

    def read(self, absolute: str) -> str | None:
        """Return the first MiB of a file as clean text, or None when it cannot be read."""
        try:
            fd = os.open(self.path(absolute), os.O_RDONLY | os.O_NONBLOCK)
            try:
                if stat.S_ISDIR(os.fstat(fd).st_mode):
                    return None
                return clean(os.read(fd, MAX_READ).decode("utf-8", "backslashreplace"), MAX_READ)
            finally:
                os.close(fd)
        except (OSError, ValueError):
            return None

    def names(self, absolute: str) -> list[str]:
        """Return the entries of a folder, sorted; empty when it is absent or unreadable."""
        try:
            return sorted(os.listdir(self.path(absolute)))
        except (OSError, ValueError):
            return []

    def opened(self, absolute: str, mode: int = os.O_RDWR) -> int | str:
        """Open a node; return its number, else the errno's name (``EPERM``, ``ENOENT`` ...).

        A device is waited for: NVIDIA's driver starts a GPU after a non-blocking open has returned, and tells no error.
        """
        path = self.path(absolute)
        try:
            device = stat.S_ISCHR(os.stat(path).st_mode)
            return os.open(path, mode | os.O_CLOEXEC | (0 if device else os.O_NONBLOCK))
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error.errno))

    def folder_size(self, absolute: str) -> tuple[int, int] | None:
        """Return total and free bytes of the filesystem that holds a folder, or None."""
        try:
            answer = os.statvfs(self.path(absolute))
        except OSError:
            return None
        return answer.f_frsize * answer.f_blocks, answer.f_frsize * answer.f_bavail

    def files(self, pattern: str) -> list[str]:
        """Return the entries of the machine that match a glob pattern, as absolute paths without the root."""
        base = Path(self.root or "/")
        try:
            return sorted("/" + str(p.relative_to(base)) for p in base.glob(pattern.lstrip("/")))
        except (OSError, ValueError):
            return []
