"""Install a child's locked packages on top of the base image, without changing the base.

usage: base-install LOCK [WHEELS]        (as root, in the Dockerfile of a child)

LOCK is the complete lock of the child with sha256 hashes; it may hold the packages of the base too, because a laptop
installs from the same file. WHEELS is the folder of the wheels that the child carries itself: the lock names each of
them with its hash (name @ file:wheels/...).

First every pin is compared with /opt/base/constraints.txt: another version of a package
that the base holds, or a GPU library that the base does not hold, ends the build with one line and changes nothing.
Then what is missing is downloaded by hash and looked into: a file, a program or a CUDA library of the base is never
replaced or hidden. Then it is installed without dependencies, and the whole environment is checked. Killed or failed,
it leaves the environment as it was.

Exit codes: 0 installed, 1 the lock does not fit the image, 2 wrong use, 3 the installation failed.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .fit import check_fit
from .image import Image
from .lock import Pin, read_lock
from .placing import Placing
from .problem import FAILED, WRONG_USE, Problem, stop
from .shared import shared_files
from .version import same_version
from .wheelhouse import Wheelhouse
from .wheels import check_wheels

CACHE = Path("/var/cache/base-install")
# What a build may tell pip: where packages come from and how to get there. All else (PIP_TARGET, PIP_USER,
# PIP_REQUIRE_VIRTUALENV, ...) would change where or how they are installed.
PIP_MAY_KNOW = (
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_KEYRING_PROVIDER",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
)


class Pip:
    """pip, run from its wheel."""

    def __init__(self, base: Path) -> None:
        wheel = next((base / "lib").glob("pip-*.whl"))
        self.program = [sys.executable, "-I", f"{wheel}/pip"]
        known = {key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key in PIP_MAY_KNOW}
        self.environment = known | {
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PIP_NO_CACHE_DIR": "1",
        }

    def __call__(self, *arguments: str, alone: bool = False) -> bool:
        """Run pip and tell whether it succeeded; what it says goes to standard error.

        alone: without what the build tells pip about where packages come from.
        """
        environment = self.environment
        if alone:
            told = {key: value for key, value in environment.items() if key not in PIP_MAY_KNOW}
            environment = told | {"PIP_CONFIG_FILE": os.devnull}
        command = [*self.program, *arguments]
        return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode == 0


def run(path: Path, wheels: Path | None, base: Path) -> str:
    """Install what the lock has and the environment has not; return what was done. Raises Problem."""
    image, pip = Image(base), Pip(base)
    check_writable(image)
    alone = os.open(image.environment, os.O_RDONLY)  # let go when the program ends, however it does
    fcntl.flock(alone, fcntl.LOCK_EX)
    placing = Placing(image)
    placing.take_back()
    pins = read_lock(path, wheels)
    check_fit(pins, image)
    before = image.versions()
    missing = {name: pin for name, pin in pins.items() if not same_version(before.get(name, ""), pin.version)}
    try:
        if missing:
            add(missing, image, placing, pip)
        check(path, image, pip)
    except BaseException:
        placing.take_back()
        raise
    if missing:
        placing.finish()
    return f"{len(missing)} packages installed, {len(pins) - len(missing)} were in the image already"


def check_writable(image: Image) -> None:
    """Raise Problem where the environment cannot be changed, with the reason."""
    if os.statvfs(image.packages).f_flag & os.ST_RDONLY:
        stop("the file system is read-only: packages are installed while an image is built", WRONG_USE)
    if not os.access(image.packages, os.W_OK):
        stop("run it as root: USER root before and USER app after the step", WRONG_USE)


def add(missing: dict[str, Pin], image: Image, placing: Placing, pip: Pip) -> None:
    """Download, look inside, install beside the environment, move into it."""
    wheelhouse = Wheelhouse(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        downloads = Path(folder, "wheels")
        downloads.mkdir()
        wanted = [pin for pin in missing.values() if not wheelhouse.take(pin, downloads)]
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet"]
        lock = write_lock(wanted, Path(folder, "wanted.txt"))
        if wanted and not pip("download", *options, "--dest", str(downloads), "-r", lock):
            stop("pip could not get the packages (its message stands above); the environment is as it was", FAILED)
        wheels = sorted(downloads.iterdir())
        wheelhouse.keep(wheels)
        check_wheels(wheels, image)
        for phrase in shared_files(wheels, image):
            print(f"note: {phrase}", file=sys.stderr)
        # By name and not by path, which would leave the path of this folder in the image.
        options += ["--no-index", "--find-links", str(downloads), "--ignore-installed", "--no-warn-script-location"]
        options += ["--root", str(placing.begin())]
        if not pip("install", *options, "-r", write_lock(missing.values(), Path(folder, "all.txt")), alone=True):
            stop("pip could not install the packages (its message stands above); the environment is as it was", FAILED)
    present = image.distributions()
    outdated = (path for name in missing if name in present for path in image.files_of(present[name]))
    placing.place(path for path in outdated if path in image.added)


def write_lock(pins: Iterable[Pin], path: Path) -> str:
    """Write pins as a file that pip reads; return its path."""
    path.write_text("".join(f"{pin.line}\n" for pin in pins))
    return str(path)


def check(path: Path, image: Image, pip: Pip) -> None:
    """Raise Problem when the base is not what it was, or a package misses another."""
    after = image.versions()
    if moved := sorted(name for name, version in image.held.items() if not same_version(after.get(name, ""), version)):
        stop(f"these packages of the base changed: {', '.join(moved)}; this is a fault of base-install", FAILED)
    if not pip("check"):
        stop(
            f"{path}: packages miss what they need (pip's message stands above); the environment is as it was; "
            "make the lock with scripts/lock",
            FAILED,
        )


def main(base: Path) -> None:
    """Run the program and end with its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda sent, _: sys.exit(128 + sent))
    os.umask(0o022)  # the user of the image reads what root installs, and writes none of it
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        raise SystemExit(0)
    try:
        if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
            raise Problem("usage: base-install LOCK [WHEELS]", WRONG_USE)
        wheels = Path(sys.argv[2]) if len(sys.argv) == 3 else None
        print(f"base-install: {run(Path(sys.argv[1]), wheels, base)}")
    except Problem as problem:
        print(f"base-install: {problem}", file=sys.stderr)
        raise SystemExit(problem.code) from None
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        print(f"base-install: {error.strerror}{place}; the environment is as it was", file=sys.stderr)
        raise SystemExit(FAILED) from None
