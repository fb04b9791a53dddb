"""What the recipe reads about Debian: sources for apt, the day of the updates, packages of one row, /etc/hosts."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .catalog import FOLDER, ImageError

FILE_TIME = 1577836800  # as in recipe/install/file_times.py


def write_debian_plan(row: dict[str, Any], folder: Path) -> None:
    """Write `debian` (for every step of apt), `refresh` (for the layer of updates alone) and `hosts` under a folder.

    A new day makes the layer of updates again and leaves the layers below as they are. Raises ImageError.
    """
    (folder / "debian").mkdir(parents=True)
    (folder / "debian" / "sources.list").write_text(apt_sources())
    (folder / "refresh").mkdir()
    (folder / "refresh" / "day").write_text(f"{datetime.now(UTC):%Y-%m-%d}\n")
    (folder / "refresh" / "apt").write_text("".join(f"{name}\n" for name in row.get("apt", [])))
    write_hosts(folder / "hosts")


def apt_sources() -> str:
    """Return the text of the file that OS_SOURCES names, "" for the sources of the system image. Raises ImageError."""
    file = os.environ.get("OS_SOURCES")
    if not file:
        return ""
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"OS_SOURCES={file}: cannot read the sources for apt: {error}") from error


def write_hosts(folder: Path) -> None:
    """Write the image's /etc/hosts under a folder, with times and modes that no day and no umask changes."""
    path = folder / "etc" / "hosts"
    path.parent.mkdir(parents=True)
    shutil.copyfile(FOLDER / "recipe" / "hosts", path)
    for one, permissions in ((path, 0o644), (path.parent, 0o755), (folder, 0o755)):
        one.chmod(permissions)
        os.utime(one, (FILE_TIME, FILE_TIME))
