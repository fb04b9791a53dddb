"""What is inside the downloaded wheels, compared with the files, programs and libraries of the image."""

import configparser
import csv
import importlib.machinery
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name, parse_wheel_filename

from .fit import WAYS_OUT
from .image import SYSTEM_PROGRAMS, WORKING_FOLDER, Image
from .problem import FAILED, stop
from .soname import Names, names

# A shared library: its name, what a wheel's own copy carries in it (libcudart-1a2b3c4d.so.12), its first number.
LIBRARY = re.compile(r"(lib\w+?)(?:[-.]([0-9a-f]{6,}))?\.so(?:\.(\d+)[\d.]*)?")
STATIC = re.compile(r"(lib\w+?)_static(?:_\w+)?\.a")
ELF = b"\x7fELF"
# Libraries whose number is that of CUDA: what is linked to them loads with that CUDA alone.
OF_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc)\.so\.(\d{2})")
SOURCES = (".py", ".pyi", ".txt", ".json", ".h", ".md")
FRAMEWORKS = ("tensorflow", "torch", "triton")
# What a node brings; a copy would be found before it, or beside it, also one whose name carries a hash. libcuda.so
# without a number is for the linker, in folders named stubs, where nothing is loaded from.
DRIVER_LIBRARY = re.compile(
    r"lib(?:cuda|cudadebugger|nvcuvid|nvidia-[a-z][a-z0-9-]*?)(?:-[0-9a-f]{8,})?\.so(?:\.\d.*)?"
)
METADATA = re.compile(r"[^/]+\.(dist-info|egg-info)")
# How the file of a module ends (version.py, version.cpython-313-x86_64-linux-gnu.so, version.abi3.so).
MODULE_ENDS = tuple(sorted(importlib.machinery.all_suffixes(), key=len, reverse=True))
LISTED = 5


def check_wheels(paths: list[Path], image: Image) -> None:
    """Raise Problem when a wheel would replace or hide what is the base's."""
    found: list[str] = []
    for path in sorted(paths):
        try:
            found += clashes(path, image)
        except (zipfile.BadZipFile, zlib.error, configparser.Error, NotImplementedError, MemoryError) as error:
            first = (str(error).splitlines() or ["not enough memory"])[0]
            stop(f"{path.name}: its hash is right, but it cannot be read as a wheel: {first}", FAILED)
    if found:
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found[:LISTED])}{more}. {WAYS_OUT}")


def clashes(path: Path, image: Image) -> Iterator[str]:
    """Yield in one phrase each what in the wheel the image cannot take."""
    name = canonicalize_name(parse_wheel_filename(path.name)[0])
    goals: list[Path] = []
    linked: set[str] = set()
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            if entry.is_dir():
                continue
            goal = destination(entry.filename, image)
            if goal is None:
                yield f"{name}: its file {entry.filename!r} would be written outside the environment"
                continue
            goals.append(goal)
            if goal.parent == image.programs:
                yield from hidden_program(name, goal.name, image)
            elif stands_in_the_way(goal, image) and not is_the_same(wheel, entry, goal, image):
                yield f"{name}: its file {entry.filename} would replace one of the image"
            else:
                yield from hidden_module(name, goal, image)
                library = library_in(wheel, entry, goal, image)
                linked |= {*library.needed}
                yield from second_library(name, goal, image, library)
        for program in entry_points(wheel):
            yield from hidden_program(name, program, image)
        yield from claimed(name, wheel, goals, image)
    yield from other_cuda(name, linked, image)
    yield from second_framework(name, goals, image)
    yield from others_metadata(name, goals, image)


def is_the_same(wheel: zipfile.ZipFile, entry: zipfile.ZipInfo, goal: Path, image: Image) -> bool:
    """Tell whether the base has a file with just this content there; the large are read only where sizes agree."""
    same_size = goal.is_file() and goal.stat().st_size == entry.file_size
    return same_size and image.has_file_at(goal, wheel.read(entry))


def library_in(wheel: zipfile.ZipFile, entry: zipfile.ZipInfo, goal: Path, image: Image) -> Names:
    """Return the names in a member that is a shared library, none for another file."""
    if image.is_base_file(goal) or goal.name.endswith(SOURCES):
        return Names()
    with wheel.open(entry) as member:
        return names(wheel.read(entry)) if member.read(len(ELF)) == ELF else Names()


def claimed(name: str, wheel: zipfile.ZipFile, goals: list[Path], image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel's list of files names one of the base's: it would go when the package does."""
    for member in wheel.namelist():
        if not re.fullmatch(r"[^/]+\.dist-info/RECORD", member):
            continue
        text = wheel.read(member).decode("utf-8", "replace")
        for row in csv.reader(text.splitlines()):
            goal = Path(os.path.normpath(image.packages / row[0])) if row else image.packages
            goal = goal.parent.resolve() / goal.name
            if goal not in goals and goal.is_file() and image.is_base_file(goal):
                yield f"{name}: its RECORD claims {row[0]}, a file of the image"
                return


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
    goal = root.joinpath(*parts)
    goal = goal.parent.resolve() / goal.name  # lib64 is a link to lib
    return None if image.environment / WORKING_FOLDER in (goal, *goal.parents) else goal


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


def hidden_module(name: str, goal: Path, image: Image) -> Iterator[str]:
    """Yield a phrase when the file is a module that the image has in another form.

    Python takes a package before a module, a compiled module before a source, both before a folder without __init__.
    """
    module = without_end(goal)
    if module is None or image.packages not in module.parents:
        return
    if module.name == "__init__":
        module = module.parent
    forms = [f"{start}{end}" for end in MODULE_ENDS for start in (module.name, f"{module.name}/__init__")]
    others = [module.parent / form for form in forms if module.parent / form != goal]
    taken = next((other for other in others if image.is_base_file(other)), None)
    if taken is None and goal.parent == module.parent and image.has_files_in(module):
        taken = module
    if taken:
        both = [path.relative_to(image.packages) for path in (goal, taken)]
        yield f"{name}: its {both[0]} is the same module as {both[1]} of the image, and Python imports one of them"


def without_end(goal: Path) -> Path | None:
    """Return the place of a module without the end of its file's name, or None for another kind of file."""
    end = next((end for end in MODULE_ENDS if goal.name.endswith(end)), None)
    return goal.with_name(goal.name.removesuffix(end)) if end and goal.name != end else None


def second_library(name: str, goal: Path, image: Image, library: Names) -> Iterator[str]:
    """Yield a phrase when the wheel bundles a CUDA library that the image has, or one that the driver brings.

    By the name of its file and by the name that it gives itself, which the loader goes by, whatever its file is called.
    A copy whose name carries a hash is private to its wheel (auditwheel makes them so), which is fine for the same
    CUDA: torchvision has such a libcudart.
    """
    if image.is_base_file(goal) or goal.name.endswith(SOURCES):
        return
    static = STATIC.fullmatch(goal.name)
    if static and static[1] in image.cuda_libraries:
        yield f"{name}: it brings a second {goal.name}, and CUDA libraries come from the image"
        return
    for known in filter(None, dict.fromkeys((goal.name, library.own))):
        if DRIVER_LIBRARY.fullmatch(known) and goal.parent.name != "stubs":
            yield f"{name}: it brings {known} as {goal.name}, and the driver's libraries come from the node"
            return
        match = LIBRARY.fullmatch(known)
        if not match or match[1] not in image.cuda_libraries:
            continue
        private = match[2] and (match[1] != "libcudart" or int(match[3] or 0) == image.cuda_major)
        if not private:
            told = goal.name if known == goal.name else f"{known} (as {goal.name})"
            yield f"{name}: it brings a second {told}, and CUDA libraries come from the image"
            return


def other_cuda(name: str, linked: set[str], image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel's libraries are linked to another CUDA alone: none of them could be loaded.

    A wheel that has them for several CUDAs loads those of the image's.
    """
    majors = {int(found[1]): library for library in sorted(linked) if (found := OF_CUDA.fullmatch(library))}
    if majors and image.cuda_major not in majors:
        other, library = min(majors.items())
        yield (
            f"{name}: its libraries are linked to {library}, of CUDA {other}, and the image has CUDA "
            f"{image.cuda_major}: ask for a version that is built for it"
        )


def second_framework(name: str, goals: list[Path], image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel holds a framework under another name than the framework's own."""
    modules = {module for goal in goals if (module := without_end(goal))}
    for framework in FRAMEWORKS:
        place = image.packages / framework
        if modules & {place, place / "__init__"} and not (place / "__init__.py").exists():
            yield f"{name}: it holds {framework}, and frameworks come from the image"


def others_metadata(name: str, goals: list[Path], image: Image) -> Iterator[str]:
    """Yield a phrase when the wheel says what another package is: its version would no longer be believed."""
    tops = {goal.relative_to(image.packages).parts[0] for goal in goals if image.packages in goal.parents}
    for top in sorted(tops):
        if METADATA.fullmatch(top):
            told = canonicalize_name(top.rpartition(".")[0].partition("-")[0])
            if told != name or not top.endswith(".dist-info"):
                yield f"{name}: it holds {top}, which says what another package is"
