"""What is inside the downloaded wheels, compared with the files, programs and libraries of the image."""

import configparser
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name, parse_wheel_filename

from .fit import WAYS_OUT
from .image import SYSTEM_PROGRAMS, Image
from .problem import stop

# A shared library: its name, what a wheel's own copy carries in it (libcudart-1a2b3c4d.so.12), its first number.
LIBRARY = re.compile(r"(lib\w+?)(?:[-.]([0-9a-f]{6,}))?\.so(?:\.(\d+)[\d.]*)?")
FRAMEWORKS = ("tensorflow", "torch", "triton")
LISTED = 5


def check_wheels(paths: list[Path], image: Image) -> None:
    """Raise Problem when a wheel would replace or hide what is the base's."""
    found = [phrase for path in sorted(paths) for phrase in clashes(path, image)]
    if found:
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found[:LISTED])}{more}. {WAYS_OUT}")


def clashes(path: Path, image: Image) -> Iterator[str]:
    """Yield in one phrase each what in the wheel the image cannot take."""
    name = canonicalize_name(parse_wheel_filename(path.name)[0])
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            if entry.is_dir():
                continue
            goal = destination(entry.filename, image)
            if goal is None:
                yield f"{name}: its file {entry.filename!r} would be written outside the environment"
            elif goal.parent == image.programs:
                yield from hidden_program(name, goal.name, image)
            elif stands_in_the_way(goal, image) and not image.has_file_at(goal, wheel.read(entry)):
                yield f"{name}: its file {entry.filename} would replace one of the image"
            else:
                yield from second_library(name, goal, image)
        yield from second_framework(name, wheel.namelist(), image)
        for program in entry_points(wheel):
            yield from hidden_program(name, program, image)


def stands_in_the_way(goal: Path, image: Image) -> bool:
    """Tell whether the base has something where the file, or a folder above it, has to be."""
    folders = goal.relative_to(image.environment).parents
    above = [image.environment / folder for folder in folders]
    return image.is_base_file(goal) or any(place.is_file() and image.is_base_file(place) for place in above)


def destination(member: str, image: Image) -> Path | None:
    """Return where a member of a wheel is written, or None for a place outside the environment (PEP 427)."""
    parts = PurePosixPath(member).parts
    root = image.packages
    if len(parts) > 2 and parts[0].endswith(".data"):
        roots = {"purelib": root, "platlib": root, "scripts": image.programs, "data": image.environment}
        root, parts = roots.get(parts[1], image.environment / "include"), parts[2:]
    if ".." in parts or PurePosixPath(member).is_absolute():
        return None
    return root.joinpath(*parts)


def entry_points(wheel: zipfile.ZipFile) -> list[str]:
    """Return the names of the programs that the wheel asks for."""
    parser = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
    setattr(parser, "optionxform", str)  # noqa: B010 - names of programs keep their case; mypy refuses the assignment
    for member in wheel.namelist():
        if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", member):
            parser.read_string(wheel.read(member).decode("utf-8", "replace"))
    return [name for kind in ("console_scripts", "gui_scripts") if kind in parser for name in parser[kind]]


def hidden_program(name: str, program: str, image: Image) -> Iterator[str]:
    """Yield a phrase when a program of the wheel would run in place of one of the image."""
    if Path(program).name != program:
        yield f"{name}: its program {program!r} would be written outside the environment"
        return
    places = [image.programs / program, *(folder / program for folder in SYSTEM_PROGRAMS)]
    if taken := next((place for place in places if image.is_base_file(place)), None):
        yield f"{name}: its program {program} would run in place of {taken}"


def second_library(name: str, goal: Path, image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel bundles a CUDA library that the image has.

    A copy whose name carries a hash is private to its wheel (auditwheel makes them so), which is fine for the same
    CUDA: torchvision has such a libcudart.
    """
    match = LIBRARY.fullmatch(goal.name)
    if not match or match[1] not in image.cuda_libraries or image.is_base_file(goal):
        return
    private = match[2] and (match[1] != "libcudart" or int(match[3] or 0) == image.cuda_major)
    if not private:
        yield f"{name}: it brings a second {goal.name}, and CUDA libraries come from the image"


def second_framework(name: str, members: list[str], image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel holds a framework under another name than the framework's own."""
    for framework in FRAMEWORKS:
        if f"{framework}/__init__.py" in members and not (image.packages / framework / "__init__.py").exists():
            yield f"{name}: it holds {framework}, and frameworks come from the image"
