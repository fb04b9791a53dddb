"""Build step: tell the loader where the wheels' libraries are, add what CUDA programs expect, fix the file times.

Runs inside `docker build` as root with the image's own Python (standard library only).
"""

import compileall
import json
import py_compile
import shutil
import subprocess
from pathlib import Path

from ca_certificates import added_roots
from file_times import FILE_TIME, set_times
from install_layer import KIT, PLAN, SITE

INSTALLER = KIT / "opt/installer"
RECIPE, BASE, PROGRAMS = Path("/build/recipe"), Path("/opt/base"), Path("/usr/local/bin")
LOADER = Path("/etc/ld.so.conf.d/nvidia-wheels.conf")


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's content with the step's own modes: those of a checkout follow its umask, the image must not."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-RT", "--no-preserve=mode", source, target], check=True)


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
    package = BASE / "lib/gpu_smoke"
    copy_tree(Path("/build/gpu_smoke"), package)
    set_times([package], since=FILE_TIME + 1)
    compileall.compile_dir(package, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    launcher = PROGRAMS / "gpu-smoke"
    # Isolated: neither the working folder nor PYTHONPATH can put a module of another in the place of ours or Python's.
    # Without site: a package's .pth file runs code in each Python that starts, which could end this one with 0.
    launcher.write_text('#!/bin/sh\nexec /opt/env/bin/python -I -S /opt/base/lib/gpu_smoke "$@"\n')
    launcher.chmod(0o755)


def place_files() -> None:
    """Copy the facts of the image, the helper for children and the packages it runs with to their places."""
    copy_tree(PLAN, BASE)
    copy_tree(Path("/build/modules"), BASE / "modules")
    copy_tree(RECIPE / "base_install", BASE / "lib/base_install")
    shutil.copyfile(INSTALLER / "pip_settings.py", BASE / "lib/pip_settings.py")
    installed = next(INSTALLER.glob("lib/python3*/site-packages"))
    # With their descriptions, which lists of packages are made from.
    for pattern in ("packaging", "packaging-*.dist-info", "uv-*.dist-info"):
        for path in installed.glob(pattern):
            copy_tree(path, BASE / "lib" / path.name)
    for program in (RECIPE / "base-install", RECIPE / "base-cc", INSTALLER / "bin/uv"):
        shutil.copyfile(program, PROGRAMS / program.name)
        (PROGRAMS / program.name).chmod(0o755)


def list_roots() -> None:
    """Say in image.json which roots of trust are not Debian's: of base-images/ca, or of the machine that builds."""
    path = BASE / "image.json"
    facts = json.loads(path.read_text()) | {"certificates": added_roots()}
    path.write_text(json.dumps(facts, indent=2) + "\n")


def main() -> None:
    """Finish the image."""
    place_files()
    list_roots()
    register_libraries()
    place_gpu_smoke()
    set_times([Path("/opt")], since=FILE_TIME + 1)


if __name__ == "__main__":
    main()
