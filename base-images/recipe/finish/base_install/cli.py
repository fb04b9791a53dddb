"""Add a project's locked packages to this image, and change nothing that the image contains.

usage: base-install LOCK [WHEELS]                                                (as root, in a Dockerfile)
       base-install [--group NAME]... [--extra NAME]...

LOCK is a requirements file with hashes, and WHEELS the folder of the wheels that the repository carries. Without
LOCK, base-install reads uv.lock and pyproject.toml of the working folder.

  --group   also the packages of a dependency group: --group dev for the stage that runs the tests
  --extra   also the packages of an extra

Where packages come from: pip's settings (PIP_INDEX_URL, or a build secret as /etc/pip.conf), those of uv
(UV_DEFAULT_INDEX, or a build secret as /etc/uv/uv.toml), or [[tool.uv.index]] in pyproject.toml. Passwords: in one of
the secrets, or in a secret as the .netrc of root.

Exit codes: 0 done, 1 the lock does not fit the image, 2 wrong use, 3 uv could not install.
"""

import argparse
import os
import sys
from pathlib import Path

from packaging.version import Version
from pip_settings import index_options

from .fit import Image, damage, installed, misfits, read_image
from .locks import Pin, explicit_indexes, export_uv_lock, read_pins
from .uv import CACHE, FAILED, WRONG_USE, stop, uv

WAYS_OUT = (
    "Ways out: lock again under the image's versions (scripts/lock), take another image (copier update -d "
    "framework=... or -d gpu_driver=...), or build your own image and set BASE_IMAGE"
)
FROM_WHEELS = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--compile-bytecode", "--quiet"]


def install(pins: list[Pin], options: list[str], folder: Path, wheels: Path) -> None:
    """Install pins by hash, from wheels, without what they depend on. wheels: the folder of the carried ones."""
    beside = f"--find-links {wheels}\n" if wheels.is_dir() else ""  # an owner's wheel may lie there too
    text = beside + "".join(f"{pin.line}\n" for pin in pins)
    command = ("pip", "install", *FROM_WHEELS, *options, "--requirements=-")
    # What an earlier build downloaded needs no index again; the hashes say that it is the same.
    if CACHE.is_mount() and uv(*command, "--offline", folder=folder, text=text).returncode == 0:
        return
    if uv(*command, folder=folder, text=text, show=True).returncode:
        stop(
            "uv could not install the packages (see above). 'not found' can mean that a password is missing: pass it "
            "as a build secret (pip.conf, uv.toml or netrc)",
            FAILED,
        )


def add(pins: list[Pin], folder: Path, wheels: Path, image: Image) -> str:
    """Install the pins that the environment does not have yet; return what was done."""
    if found := list(misfits({pin.name: pin.version for pin in pins}, image)):
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
    before = {name: Version(one.version) for name, one in installed().items()}
    missing = [pin for pin in pins if before.get(pin.name) != pin.version]
    if carried := [pin for pin in missing if pin.carried]:
        install(carried, ["--no-index"], folder, wheels)
    if others := [pin for pin in missing if not pin.carried]:
        # The hashes decide which file is taken, so any of the indexes may have it.
        any_index = ["--index-strategy=unsafe-best-match", *explicit_indexes(folder, others), *index_options()]
        install(others, any_index, folder, wheels)
    if found := list(damage(image, [pin.name for pin in missing])):
        stop(f"the packages do not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
    return f"{len(missing)} packages installed, {len(pins) - len(missing)} were in the image already"


def main(base: Path) -> None:
    """Run the program and end with its exit code."""
    parser = argparse.ArgumentParser(prog="base-install", usage=(__doc__ or "").partition("usage: ")[2].strip())
    parser.add_argument("lock", nargs="?", type=Path)
    parser.add_argument("wheels", nargs="?", type=Path)
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--extra", action="append", default=[])
    arguments = parser.parse_args()
    if not os.access(sys.prefix, os.W_OK):
        stop("run it as root while an image is built: USER 0 before the step and USER 1000:1000 after it", WRONG_USE)
    os.umask(0o022)  # the image's user reads what root installs
    if arguments.lock:
        folder, lock, wheels = Path("/"), arguments.lock, (arguments.wheels or Path("wheels")).resolve()
        try:
            text = lock.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            cause = getattr(error, "strerror", None) or "not UTF-8"
            stop(f"{lock}: cannot read the lock: {cause}; mount it", WRONG_USE)
    else:
        folder, lock, wheels = Path.cwd(), Path("uv.lock"), Path("wheels").resolve()
        choice = [f"--{kind}={name}" for kind in ("group", "extra") for name in getattr(arguments, kind)]
        text = export_uv_lock(folder, choice)
    pins = read_pins(text, lock, wheels)
    print(f"base-install: {add(pins, folder, wheels, read_image(base))}")
