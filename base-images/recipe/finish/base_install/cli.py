"""Add a project's locked packages to this image, and change nothing that the image contains.

usage: base-install LOCK [WHEELS]                                                (as root, in a Dockerfile)

LOCK is a requirements file with hashes, and WHEELS the folder of the wheels that the repository carries (wheels).
uv makes such a file from uv.lock: uv export --frozen --no-dev --no-emit-project --quiet --output-file LOCK

Where packages come from: pip's settings (PIP_INDEX_URL, or a build secret as /etc/pip.conf) or those of uv
(UV_DEFAULT_INDEX, or a build secret as /etc/uv/uv.toml). Passwords: in one of the secrets, or in a secret as the
.netrc of root.

Exit codes: 0 done, 1 the lock does not fit the image, 2 wrong use, 3 uv could not install.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from packaging.version import Version
from pip_settings import index_options, uv_environment

from .fit import Image, damage, installed, misfits, read_image
from .locks import Pin, read_pins
from .problem import FAILED, WRONG_USE, stop

CACHE = Path("/var/cache/base-install")
WAYS_OUT = (
    "Ways out: lock again under the image's versions (scripts/lock), take another image (copier update -d "
    "framework=... or -d gpu_driver=...), or build your own image and set BASE_IMAGE"
)
# The hashes decide which file is taken, so any of the indexes may have it.
INSTALL = (
    *("uv", "--color=never", "pip", "install", "--requirements=-", "--no-deps", "--require-hashes"),
    *("--only-binary=:all:", "--compile-bytecode", "--quiet", "--index-strategy=unsafe-best-match"),
)
SETTINGS = {"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy", "UV_NO_PROGRESS": "1"}


def install(pins: list[Pin], options: list[str], wheels: Path) -> None:
    """Install pins by hash, from wheels, without what they depend on. wheels: the folder of the carried ones."""
    beside = f"--find-links {wheels}\n" if wheels.is_dir() else ""  # an owner's wheel may lie there too
    text = beside + "".join(f"{pin.line}\n" for pin in pins)
    # A cache that is not a mount would stay in the image.
    cache = {"UV_CACHE_DIR": str(CACHE)} if CACHE.is_mount() else {"UV_NO_CACHE": "1"}
    environment, command = uv_environment() | SETTINGS | cache, [*INSTALL, *options]
    # What an earlier build downloaded needs no index again; the hashes say that it is the same.
    if CACHE.is_mount():
        offline = [*command, "--offline"]
        if not subprocess.run(
            offline, input=text.encode(), env=environment, capture_output=True, check=False
        ).returncode:
            return
    if subprocess.run(command, input=text.encode(), env=environment, check=False).returncode:
        stop(
            "uv could not install the packages (see above). 'not found' can mean that a password is missing: pass it "
            "as a build secret (pip.conf, uv.toml or netrc)",
            FAILED,
        )


def add(pins: list[Pin], wheels: Path, image: Image) -> str:
    """Install the pins that the environment does not have yet; return what was done."""
    if found := list(misfits({pin.name: pin.version for pin in pins}, image)):
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
    before = {name: Version(one.version) for name, one in installed().items()}
    missing = [pin for pin in pins if before.get(pin.name) != pin.version]
    if carried := [pin for pin in missing if pin.carried]:
        install(carried, ["--no-index"], wheels)
    if others := [pin for pin in missing if not pin.carried]:
        install(others, index_options(), wheels)
    if found := list(damage(image, [pin.name for pin in missing])):
        stop(f"the packages do not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
    return f"{len(missing)} packages installed, {len(pins) - len(missing)} were in the image already"


def main(base: Path) -> None:
    """Run the program and end with its exit code."""
    parser = argparse.ArgumentParser(prog="base-install", usage=(__doc__ or "").partition("usage: ")[2].strip())
    parser.add_argument("lock", type=Path)
    parser.add_argument("wheels", nargs="?", type=Path, default=Path("wheels"))
    arguments = parser.parse_args()
    if not os.access(sys.prefix, os.W_OK):
        stop("run it as root while an image is built: USER 0 before the step and USER 1000:1000 after it", WRONG_USE)
    os.umask(0o022)  # the image's user reads what root installs
    wheels = arguments.wheels.resolve()
    print(f"base-install: {add(read_pins(arguments.lock, wheels), wheels, read_image(base))}")
