"""Reading a child's lock: the exact packages that this Python and platform install.

Two forms: uv.lock, and the requirements*.lock of children up to 0.6, which `uv pip compile` writes (read until 0.8).
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from packaging.pylock import (
    Package,
    PackageArchive,
    PackageSdist,
    PackageWheel,
    Pylock,
    PylockSelectError,
    PylockValidationError,
)
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .uv import WRONG_USE, reason, stop, uv

CARRIED = "file:wheels/"
RENEW = "run scripts/lock and commit the locks"


class Pin(NamedTuple):
    """A locked package: name, version, the SHA-256 of its files, and whether the child carries its wheel."""

    name: NormalizedName
    version: Version
    hashes: tuple[str, ...]
    carried: bool = False
    origin: str = ""  # its package index; a requirements file does not say
    fits: bool = True  # whether a wheel is for this Python and platform; a requirements file does not say

    @property
    def line(self) -> str:
        """The pin as a line of a requirements file. By name: a path would be recorded in the image."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{one}" for one in self.hashes)])


def read_requirements(path: Path, wheels: Path) -> list[Pin]:
    """Return the pins of a requirements file with hashes. wheels: the folder of the wheels that the child carries."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        stop(f"{path}: cannot read the lock: {getattr(error, 'strerror', None) or 'not UTF-8'}; mount it", WRONG_USE)
    pins: dict[NormalizedName, Pin] = {}
    for raw in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#", raw)[0].strip()
        pin = read_line(path, line, wheels) if line and line != "--require-hashes" else None
        if pin and pins.setdefault(pin.name, pin).version != pin.version:
            stop(f"{path}: {pin.name} has two versions, {pins[pin.name].version} and {pin.version}; {RENEW}")
    return list(pins.values())


def read_line(path: Path, line: str, wheels: Path) -> Pin | None:
    """Return the pin of a line, or None where its marker is about another platform."""
    hashes = tuple(re.findall(r"--hash=sha256:([0-9a-fA-F]{64})\b", line))
    text = re.sub(r"//[^/@\s]+@", "//...@", line.split(" --hash=")[0].strip())  # no password in a log
    try:
        requirement = Requirement(text)
        file = (requirement.url or "").removeprefix(CARRIED)
        carried = file != (requirement.url or "")
        version = parse_wheel_filename(file)[1] if carried else Version(str(requirement.specifier).removeprefix("=="))
    except (InvalidRequirement, InvalidVersion, InvalidWheelFilename):
        stop(f"{path}: {text!r} is not a line NAME==VERSION; {RENEW}")
    if carried and not (wheels / file).is_file():
        stop(f"{path} names wheels/{file}, which does not exist; {RENEW}")
    if not hashes:
        stop(f"{path}: {text!r} has no sha256 hash; {RENEW}")
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    return Pin(canonicalize_name(requirement.name), version, hashes, carried)


def read_uv_lock(folder: Path, choice: list[str]) -> list[Pin]:
    """Return the pins of uv.lock. choice: options of uv for groups and extras."""
    for name in ("pyproject.toml", "uv.lock"):
        if not (folder / name).is_file():
            stop(f"{folder / name}: no such file; mount pyproject.toml, uv.lock and wheels/ into the step", WRONG_USE)
    options = ("--frozen", "--offline", "--no-emit-project", "--no-default-groups", "--format=pylock.toml")
    exported = uv("export", *options, *choice, folder=folder)
    if exported.returncode:
        stop(f"uv cannot read uv.lock: {reason(exported.stderr)}")
    try:
        lock = Pylock.from_dict(tomllib.loads(exported.stdout))
        check_uv_lock(folder, sorted({package.index for package in lock.packages if package.index}))
        chosen = list(lock.select())
    except (PylockValidationError, PylockSelectError) as error:
        stop(f"uv.lock: {error}")
    return [pin_of(package, file) for package, file in chosen]


def pin_of(package: Package, file: Any) -> Pin:
    """Return the pin of a package whose file was chosen for this Python and platform."""
    if isinstance(file, PackageArchive) and (file.path or "").endswith(".whl"):
        name, version, *_ = parse_wheel_filename(Path(file.path or "").name)
        return Pin(name, version, (str(file.hashes["sha256"]),), carried=True)
    if package.version is None or not isinstance(file, PackageWheel | PackageSdist):
        stop(f"{package.name}: a folder or an address has no hash to check; put a wheel into wheels/")
    files: list[PackageWheel | PackageSdist] = [*(package.wheels or ()), *([package.sdist] if package.sdist else [])]
    hashes = tuple(str(one.hashes["sha256"]) for one in files)
    fits = isinstance(file, PackageWheel)
    return Pin(package.name, package.version, hashes, origin=package.index or "", fits=fits)


def check_uv_lock(folder: Path, indexes: list[str]) -> None:
    """Stop where uv.lock does not match pyproject.toml. Needs no network."""
    # Named, the lock's own indexes count as known whatever this build's default index is.
    result = uv("lock", "--check", "--offline", *(f"--index={index}" for index in indexes), folder=folder)
    # Where the lock is stale, uv resolves again, and reports without a network that it knows no packages.
    if result.returncode and re.search(
        "needs to be updated|network was disabled|not found in the cache", result.stderr
    ):
        stop("uv.lock does not match pyproject.toml: run `uv lock` and commit uv.lock")
    if result.returncode:
        stop(f"uv cannot use uv.lock: {reason(result.stderr)}")
