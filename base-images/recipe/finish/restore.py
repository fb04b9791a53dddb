"""Build step of the devel image: what a compiler reads, and nvcc with the toolkit's usual folder.

    restore.py PLAN KIT
PLAN holds requirements.txt and restore.json (headers and static libraries that the runtime image leaves out: packages
to unpack again, and the globs to take from them) and toolchain.txt (the packages of nvcc; empty where there is none).
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from file_times import set_times
from pip_settings import index_options, uv_environment

SITE = next(Path("/opt/env").glob("lib/python3*/site-packages"))
TOOLKIT = Path("/usr/local/cuda")
OPTIONS = (
    "--index-strategy unsafe-best-match --no-deps --require-hashes --only-binary :all: --link-mode hardlink --quiet"
)


def unpack(requirements: Path, folder: str, kit: Path) -> None:
    """Unpack locked packages into a folder beside the cache."""
    environment = uv_environment() | {"UV_CACHE_DIR": "/srv"}
    command = [kit / "opt/installer/native", "uv", "pip", "install", *OPTIONS.split(), *index_options()]
    target = ["--python", "/opt/env/bin/python", "--target", folder, "-r", str(requirements)]
    subprocess.run([*command, *target], check=True, env=environment)


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
    for unpacked in folder.glob("nvidia/cu*"):
        for name in ("bin", "nvvm", "include"):
            shutil.copytree(unpacked / name, TOOLKIT / name, dirs_exist_ok=True)
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
    plan, kit = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory(dir="/srv") as folder:
        unpack(plan / "requirements.txt", folder, kit)
        restore(Path(folder), json.loads((plan / "restore.json").read_text()))
    if (plan / "toolchain.txt").read_text():
        with tempfile.TemporaryDirectory(dir="/srv") as folder:
            unpack(plan / "toolchain.txt", folder, kit)
            place_toolkit(Path(folder))
    set_times([Path("/opt/env"), Path("/usr/local")], since=start)


if __name__ == "__main__":
    main()
