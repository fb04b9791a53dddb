"""Build step of the devel image: what a compiler reads, and nvcc with the toolkit's usual folder.

The plan holds requirements.txt and restore.json (headers and static libraries that the runtime image leaves out:
packages to unpack again, and the globs to take from them) and toolchain.txt (nvcc; empty where there is none).
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from file_times import set_times
from install_layer import CACHE, PLAN, SITE, install

TOOLKIT = Path("/usr/local/cuda")


@contextmanager
def unpacked(requirements: str) -> Iterator[Path]:
    """Yield a folder beside the cache with the locked packages of a file of the plan."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        install(PLAN / requirements, f"--target={folder}")
        yield Path(folder)


def restore(folder: Path, patterns: list[str]) -> None:
    """Copy files that match from the unpacked packages into the environment, where they are missing."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            goal = SITE / path.relative_to(folder)
            if path.is_file() and not goal.exists():
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, goal)


def place_toolkit(folder: Path) -> None:
    """Lay out CUDA_HOME as compilers expect it: nvcc as files, the environment's headers and libraries as links."""
    for toolkit in folder.glob("nvidia/cu*"):
        for name in ("bin", "nvvm", "include"):
            shutil.copytree(toolkit / name, TOOLKIT / name, dirs_exist_ok=True)
    for header in SITE.glob("nvidia/*/include/*"):
        link(TOOLKIT / "include" / header.name, header)
    for library in sorted(SITE.glob("nvidia/*/lib/lib*")):
        link(TOOLKIT / "lib" / library.name, library)
        if ".so." in library.name:  # wheels have libcublas.so.13 alone, and -lcublas wants libcublas.so
            link(TOOLKIT / "lib" / f"{library.name.split('.so.')[0]}.so", library)
    link(TOOLKIT / "lib64", TOOLKIT / "lib")  # nvcc of the wheels looks into lib, torch and CMake into lib64


def link(path: Path, goal: Path) -> None:
    """Make a link unless something is there already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.symlink_to(goal)


def main() -> None:
    """Bring everything back that the plan names."""
    start = int(time.time())
    with unpacked("requirements.txt") as folder:
        restore(folder, json.loads((PLAN / "restore.json").read_text()))
    if (PLAN / "toolchain.txt").read_text():
        with unpacked("toolchain.txt") as folder:
            place_toolkit(folder)
    set_times([Path("/opt/env"), Path("/usr/local")], since=start)


if __name__ == "__main__":
    main()
