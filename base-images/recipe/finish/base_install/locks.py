"""Reading a child's lock: the exact packages that this Python and platform install.

Two forms: uv.lock, and the requirements*.lock of children up to 0.6, which `uv pip compile` writes (read until 0.8).
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .uv import WRONG_USE, reason, stop, uv

CARRIED = "wheels/"


class Pin(NamedTuple):
    """A locked package: name, version, its hashes as uv's options, and whether the child carries its wheel."""

    name: NormalizedName
    version: Version
    hashes: tuple[str, ...]
    carried: bool = False
    # File names of the wheels in the lock and the index that they are from; a requirements file has neither.
    wheels: tuple[str, ...] | None = None
    origin: str = ""

    @property
    def line(self) -> str:
        """The pin as a line of a requirements file. By name: a path would be recorded in the image."""
        return " ".join([f"{self.name}=={self.version}", *self.hashes])


# ---------------------------------------------------------------- requirements*.lock


def read_requirements(path: Path, wheels: Path | None) -> list[Pin]:
    """Return the pins of a requirements file with hashes. wheels: the folder of the wheels that the child carries."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        stop(f"{path}: cannot read the lock: {getattr(error, 'strerror', None) or 'not UTF-8'}; mount it", WRONG_USE)
    pins: dict[NormalizedName, Pin] = {}
    for raw in re.sub(r"\\\r?(?:\n|$)", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#", raw)[0].strip()
        pin = read_line(path, line, wheels) if line and line != "--require-hashes" else None
        if pin and pins.setdefault(pin.name, pin).version != pin.version:
            stop(f"{path}: {pin.name} has two versions, {pins[pin.name].version} and {pin.version}; {advice(path)}")
    return list(pins.values())


def read_line(path: Path, line: str, wheels: Path | None) -> Pin | None:
    """Return the pin of a line, or None where its marker is about another platform."""
    hashes = tuple(re.findall(r"--hash=sha256:[0-9a-fA-F]{64}(?=\s|$)", line))
    text = re.sub(r"//[^/@\s]+@", "//...@", re.sub(r"--hash=\S+", "", line).strip())  # no password in a log
    try:
        requirement = Requirement(text)
        carried = (requirement.url or "").startswith(f"file:{CARRIED}")
        if carried:
            file = (requirement.url or "").removeprefix(f"file:{CARRIED}")
            if wheels is None or not (wheels / Path(file).name).is_file():
                stop(f"{path} names wheels/{file}, which does not exist; {advice(path)}")
            version = parse_wheel_filename(file)[1]
        else:
            version = Version(exact(requirement))
    except (InvalidRequirement, InvalidVersion, InvalidWheelFilename):
        stop(f"{path}: {text!r} is not a line NAME==VERSION; {advice(path)}")
    if not hashes:
        stop(f"{path}: {text!r} has no sha256 hash; {advice(path)}")
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    return Pin(canonicalize_name(requirement.name), version, hashes, carried)


def exact(requirement: Requirement) -> str:
    """Return the one version that a requirement allows, or "" if it allows others or names an address."""
    found = [specifier.version for specifier in requirement.specifier if specifier.operator == "=="]
    return found[0] if len(found) == len(requirement.specifier) == 1 and not requirement.url else ""


def advice(path: Path) -> str:
    """Return how to make the lock again."""
    return "run `uv lock` and commit uv.lock" if path.name == "uv.lock" else "run scripts/lock and commit the locks"


# ---------------------------------------------------------------- uv.lock


def read_uv_lock(folder: Path, choice: list[str]) -> list[Pin]:
    """Return the pins of uv.lock. choice: options of uv for groups and extras."""
    check_uv_lock(folder)
    export = ("export", "--frozen", "--offline", "--no-emit-project", "--no-default-groups", "--no-header")
    result = uv(*export, "--no-annotate", *choice, folder=folder)
    if result.returncode:
        stop(f"uv cannot read uv.lock: {reason(result.stderr)}")
    files = locked_files(folder)
    pins = []
    for line in result.stdout.replace("\\\n", " ").splitlines():
        text = line.split("--hash=")[0].strip()
        path, _, marker = text.partition(" ; ")
        local = path.startswith(("./", "../", "/"))
        if local and path.endswith(".whl"):
            name, locked, *_ = parse_wheel_filename(Path(path).name)
            text = f"{name}=={locked}" + (f" ; {marker}" if marker else "")
        elif local or text.startswith("-") or "@" in text:
            stop(f"{path.split('@')[0].strip()}: a folder or an address has no hash to check; put a wheel into wheels/")
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            key = canonicalize_name(requirement.name), Version(exact(requirement))
            pins.append(Pin(*key, tuple(re.findall(r"--hash=\S+", line)), local, *files[key]))
    return pins


def check_uv_lock(folder: Path) -> None:
    """Stop where uv.lock is missing or does not match pyproject.toml. Needs no network."""
    for name in ("pyproject.toml", "uv.lock"):
        if not (folder / name).is_file():
            stop(f"{folder / name}: no such file; mount pyproject.toml, uv.lock and wheels/ into the step", WRONG_USE)
    # Named, the lock's own indexes count as known whatever this build's default index is.
    indexes = {index for _, index in locked_files(folder).values()} - {""}
    result = uv("lock", "--check", "--offline", *(f"--index={index}" for index in sorted(indexes)), folder=folder)
    # Where the lock is stale, uv resolves again, and reports without a network that it knows no packages.
    if result.returncode and re.search(
        "needs to be updated|network was disabled|not found in the cache", result.stderr
    ):
        stop(f"uv.lock does not match pyproject.toml: {advice(folder / 'uv.lock')}")
    if result.returncode:
        stop(f"uv cannot use uv.lock: {reason(result.stderr)}")


def locked_files(folder: Path) -> dict[tuple[NormalizedName, Version], tuple[tuple[str, ...], str]]:
    """Return the names of the wheels that uv.lock has for each package and version, and its index."""
    lock: dict[str, Any] = tomllib.loads((folder / "uv.lock").read_text())
    found: dict[tuple[NormalizedName, Version], tuple[tuple[str, ...], str]] = {}
    for package in (package for package in lock.get("package", []) if "version" in package):
        places = (wheel.get("url") or wheel.get("path") or wheel["filename"] for wheel in package.get("wheels", []))
        names = tuple(unquote(Path(place).name) for place in places)
        found[canonicalize_name(package["name"]), Version(package["version"])] = (
            names,
            package["source"].get("registry", ""),
        )
    return found
