"""Add a project's locked packages to this image, and change nothing that the image contains.

usage: base-install LOCK [WHEELS]                                                (as root, in a Dockerfile)
       base-install [--group NAME]... [--extra NAME]... [--project FOLDER]

LOCK is a requirements file with hashes, and WHEELS the folder of the wheels that the repository carries. Without
LOCK, base-install reads uv.lock and pyproject.toml of the working folder, or of FOLDER. With --project it also builds
and installs the project itself: make that the last step, because it changes most often.

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
import tempfile
import tomllib
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import Version
from pip_settings import index_options

from .fit import Image, damage, installed, misfits, read_image
from .locks import Pin, read_requirements, read_uv_lock
from .uv import CACHE, FAILED, WRONG_USE, reason, stop, uv

WAYS_OUT = (
    "Ways out: lock again under the image's versions (scripts/lock), take another image (copier update -d "
    "framework=... or -d gpu_driver=...), or build your own image and set BASE_IMAGE"
)
# The hashes decide which file is taken, so any of the indexes may have it.
FROM_WHEELS = (
    "pip",
    "install",
    "--no-deps",
    "--require-hashes",
    "--only-binary=:all:",
    "--compile-bytecode",
    "--quiet",
)
BEST_MATCH = "--index-strategy=unsafe-best-match"


def install(pins: list[Pin], folder: Path, wheels: Path) -> None:
    """Install pins by hash, from wheels, without what they depend on. wheels: the folder of the carried ones."""
    carried, others = [pin for pin in pins if pin.carried], [pin for pin in pins if not pin.carried]
    from_index = [f"--index={index['name']}={index['url']}" for index in explicit_indexes(folder, pins)]
    beside = f"--find-links {wheels}\n" if wheels.is_dir() else ""  # an owner's wheel may lie there too
    for chosen, options in ((carried, ["--no-index"]), (others, [BEST_MATCH, *from_index, *index_options()])):
        text = beside + "".join(f"{pin.line}\n" for pin in chosen)
        command = (*FROM_WHEELS, *options, "--requirements=-")
        # What an earlier build downloaded needs no index again; the hashes say that it is the same.
        if chosen and CACHE.is_mount() and uv(*command, "--offline", folder=folder, text=text).returncode == 0:
            continue
        if chosen and uv(*command, folder=folder, text=text, show=True).returncode:
            stop(
                "uv could not install the packages (see above). 'not found' can mean that a password is missing: pass "
                "it as a build secret (pip.conf, uv.toml or netrc)",
                FAILED,
            )


def explicit_indexes(folder: Path, pins: list[Pin]) -> list[dict[str, str]]:
    """Return the indexes of pyproject.toml that uv uses only where they are named, as far as pins are from them."""
    project = folder / "pyproject.toml"
    settings = tomllib.loads(project.read_text()).get("tool", {}).get("uv", {}) if project.is_file() else {}
    wanted = {pin.origin.rstrip("/") for pin in pins}
    return [one for one in settings.get("index", []) if one.get("explicit") and one["url"].rstrip("/") in wanted]


def install_project(folder: Path) -> None:
    """Build the project without a network and install it; uv builds projects that use uv_build itself."""
    with tempfile.TemporaryDirectory() as out:
        result = uv("build", "--wheel", "--offline", f"--out-dir={out}", "--no-create-gitignore", folder=folder)
        if result.returncode:
            stop(f"the project cannot be built without a network: {reason(result.stderr)}", FAILED)
        name, version, *_ = parse_wheel_filename(next(Path(out).glob("*.whl")).name)
        options = ("--no-deps", "--no-index", f"--find-links={out}", "--compile-bytecode", "--reinstall", "--quiet")
        if uv("pip", "install", *options, f"{name}=={version}", folder=Path(out), show=True).returncode:
            stop("uv could not install the project (see above)", FAILED)


def add(pins: list[Pin], folder: Path, wheels: Path, image: Image) -> str:
    """Install the pins that the environment does not have yet; return what was done."""
    if found := list(misfits({pin.name: pin.version for pin in pins}, image)):
        stop(f"the lock does not fit the image {image.name}: {'; '.join(found)}. {WAYS_OUT}")
    before = {name: Version(one.version) for name, one in installed().items()}
    missing = [pin for pin in pins if before.get(pin.name) != pin.version]
    if found := [f"{pin.name} {pin.version}" for pin in missing if not pin.fits]:
        stop(
            f"no wheel for Python {image.python} of this image: {', '.join(found)}. Take a version that has one, or "
            "build the wheel in the devel image and put it into wheels/"
        )
    if missing:
        install(missing, folder, wheels)
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
    parser.add_argument("--project", type=Path)
    arguments = parser.parse_args()
    if not os.access(sys.prefix, os.W_OK):
        stop("run it as root while an image is built: USER 0 before the step and USER 1000:1000 after it", WRONG_USE)
    os.umask(0o022)  # the image's user reads what root installs
    folder = (arguments.project or Path()).resolve()
    if arguments.lock:
        folder, wheels = Path("/"), (arguments.wheels or Path("wheels")).resolve()
        pins = read_requirements(arguments.lock, wheels)
    else:
        wheels = folder / "wheels"
        choice = [f"--{kind}={name}" for kind in ("group", "extra") for name in getattr(arguments, kind)]
        pins = read_uv_lock(folder, choice)
    print(f"base-install: {add(pins, folder, wheels, read_image(base))}")
    if arguments.project:
        install_project(folder)
