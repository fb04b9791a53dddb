"""What two of the wheels both bring: pip lets the later one win and says nothing."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from .image import Image
from .wheels import destination, entry_points


def shared_files(paths: list[Path], image: Image) -> Iterator[str]:
    """Yield in one phrase each file or program that two wheels bring in different forms."""
    known: dict[Path, tuple[str, object]] = {}
    for path in sorted(paths):
        name = path.name.split("-")[0]
        for goal, mark in contents(path, image):
            other, seen = known.setdefault(goal, (name, mark))
            if seen != mark:
                yield f"{other} and {name} both bring {goal.relative_to(image.environment)}: one of them is lost"


def contents(path: Path, image: Image) -> Iterator[tuple[Path, object]]:
    """Yield the place of each file and program of a wheel, with what tells it from another of that name."""
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            if not entry.is_dir() and (goal := destination(entry.filename, image)):
                yield goal, (entry.CRC, entry.file_size)
        for program in entry_points(wheel):
            yield image.programs / program, path.name
