"""Build step: tell the loader where the wheels' libraries are, add what CUDA programs expect, fix the file times.

Runs inside `docker build` as root with the image's own Python (standard library only).
"""

import compileall
import json
import py_compile
import shutil
import subprocess
import zipfile
from pathlib import Path

from copying import FILE_MODE, copy_tree
from file_times import FILE_TIME, set_times
from roots import added_roots

SITE = next(Path("/opt/env").glob("lib/python3*/site-packages"))
INSTALLER = Path("/mnt/opt/installer")
LOADER = Path("/etc/ld.so.conf.d/nvidia-wheels.conf")


def register_libraries() -> None:
    """Put the wheels' library folders into the loader's cache, for dlopen, ctypes and C++ programs."""
    folders = sorted({str(path.parent) for path in SITE.glob("nvidia/**/*.so*")})
    LOADER.write_text("".join(f"{folder}\n" for folder in folders))
    link_runtime()
    subprocess.run(["ldconfig"], check=True)
    Path("/var/cache/ldconfig/aux-cache").unlink(missing_ok=True)


def link_runtime() -> None:
    """Add libcudart.so beside libcudart.so.N: some plugins load the CUDA runtime by the name without a number."""
    for library in SITE.glob("nvidia/**/libcudart.so.*"):
        library.with_name("libcudart.so").symlink_to(library.name)


def place_gpu_smoke() -> None:
    """Copy the smoke test, compile it and write its command."""
    package = Path("/opt/base/lib/gpu_smoke")
    copy_tree(Path("/usr/local/src"), package)
    set_times([package], since=FILE_TIME + 1)
    compileall.compile_dir(package, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    launcher = Path("/usr/local/bin/gpu-smoke")
    # Isolated: neither the working folder nor PYTHONPATH can put a module of another in the place of ours or Python's.
    # Without site: a package's .pth file runs code in each Python that starts, which could end this one with 0.
    launcher.write_text('#!/bin/sh\nexec /opt/env/bin/python -I -S /opt/base/lib/gpu_smoke "$@"\n')
    launcher.chmod(0o755)


def place_files() -> None:
    """Copy the facts of the image, the helper for children and the packages it runs with to their places."""
    base = Path("/opt/base")
    copy_tree(Path("/srv"), base)
    copy_tree(Path("/media/base_install"), base / "lib/base_install")
    for path in (next(INSTALLER.glob("wheels/packaging-*.whl")), INSTALLER / "pip_settings.py"):
        shutil.copyfile(path, base / "lib" / path.name)
        (base / "lib" / path.name).chmod(FILE_MODE)
    copy_tree(Path("/boot"), base / "modules")
    for name in ("base-install", "base-cc"):
        program = Path("/usr/local/bin") / name
        shutil.copyfile(f"/media/{name}", program)
        program.chmod(0o755)
    place_uv(Path("/usr/local/bin/uv"))


def place_uv(program: Path) -> None:
    """Take the program out of uv's wheel, and its description, which lists of packages are made from."""
    with zipfile.ZipFile(next(INSTALLER.glob("wheels/uv-*.whl"))) as wheel:
        members = wheel.namelist()
        program.write_bytes(wheel.read(next(name for name in members if name.endswith(".data/scripts/uv"))))
        wheel.extract(next(name for name in members if name.endswith(".dist-info/METADATA")), "/opt/base/lib")
    program.chmod(0o755)


def list_roots() -> None:
    """Say in image.json which roots of trust are not Debian's: of base-images/ca, or of the machine that builds."""
    path = Path("/opt/base/image.json")
    facts = json.loads(path.read_text()) | {"certificates": added_roots()}
    path.write_text(json.dumps(facts, indent=2) + "\n")
    for root in facts["certificates"]:
        print(f"trusted beyond Debian's roots: {root['subject'] or 'unnamed'} ({root['sha256']})")


def main() -> None:
    """Finish the image."""
    place_files()
    list_roots()
    register_libraries()
    place_gpu_smoke()
    set_times([Path("/opt")], since=FILE_TIME + 1)


if __name__ == "__main__":
    main()
