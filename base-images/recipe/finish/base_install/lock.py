"""Reading a child's lock: one exact version and its hashes for each package that this platform installs."""

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .problem import WRONG_USE, stop
from .version import same_version

RENEW = "make the lock with scripts/lock"
CARRIED = "file:wheels/"
# Options that change nothing about what base-install does with a lock.
HARMLESS_OPTIONS = ("--require-hashes", "--prefer-binary")


@dataclass(frozen=True)
class Pin:
    """A package with its exact version, and the sha256 hashes of the files that may be taken for it."""

    name: str
    version: str
    hashes: frozenset[str]
    wheel: Path | None = None  # the file, where the child carries the package itself

    @property
    def line(self) -> str:
        """The pin as a line of a requirements file."""
        wanted = f"{self.name} @ {self.wheel.resolve().as_uri()}" if self.wheel else f"{self.name}=={self.version}"
        return " ".join([wanted, *sorted(self.hashes)])


def read_lock(path: Path, wheels: Path | None = None) -> dict[str, Pin]:
    """Return the pins for this platform by normal name. Raises Problem for whatever is not a complete pin.

    wheels: the folder of the wheels that the child carries; the lock has to name each of them.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        stop(f"{path}: not a text in UTF-8 (byte {error.start}); {RENEW}")
    except FileNotFoundError:
        stop(f"{path}: no such file; mount the lock into the build step", WRONG_USE)
    except OSError as error:
        stop(f"{path}: cannot be read as a lock: {error.strerror}", WRONG_USE)
    pins: dict[str, Pin] = {}
    for raw in re.sub(r"\\\r?(?:\n|$)", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#", raw)[0].strip()
        if not line or line in HARMLESS_OPTIONS:
            continue
        if pin := read_pin(path, line, wheels):
            merge(path, pins, pin)
    named = {pin.wheel.name for pin in pins.values() if pin.wheel}
    if unnamed := sorted(wheel.name for wheel in (wheels.glob("*.whl") if wheels else ()) if wheel.name not in named):
        stop(f"the lock does not name wheels/{unnamed[0]}, which the template brought: run scripts/lock and commit")
    return pins


def read_pin(path: Path, line: str, wheels: Path | None = None) -> Pin | None:
    """Return the pin of a line, or None when its marker is about other platforms."""
    if line.startswith("-") and not line.startswith(("-e", "--editable")):
        option = re.split(r"[=\s]", line)[0]
        stop(
            f"{path}: the option {option} does not belong in a lock, which holds packages alone: take the line out; "
            "where packages come from is said to the build (PIP_INDEX_URL, or a pip.conf as a build secret)"
        )
    hashes = frozenset(found.lower() for found in re.findall(r"--hash=sha256:[0-9a-fA-F]{64}(?=\s|$)", line))
    text = re.sub(r"//[^/@\s]+@", "//...@", re.sub(r"--hash=\S+", "", line).strip())  # a log is no place for passwords
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        stop(f"{path}: cannot read {text!r}: expected name==version with hashes; {RENEW}")
    if requirement.url and requirement.url.startswith(CARRIED) and hashes:
        return carried(path, requirement, hashes, wheels)
    specifiers = list(requirement.specifier)
    if requirement.url or len(specifiers) != 1 or specifiers[0].operator != "==" or not hashes:
        stop(f"{path}: {text!r} needs one exact version and a sha256 hash; {RENEW}")
    version = exact(specifiers[0].version) or stop(f"{path}: {text!r} needs one exact version, not a pattern; {RENEW}")
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    return Pin(requirement.name, version, hashes)


def carried(lock: Path, requirement: Requirement, hashes: frozenset[str], wheels: Path | None) -> Pin:
    """Return the pin of a wheel that the child carries, which the lock names as file:wheels/..."""
    name = (requirement.url or "").removeprefix(CARRIED)
    if wheels is None or "/" in name or not (wheels / name).is_file():
        stop(f"{lock} names wheels/{name}, which is not there: {RENEW}")
    try:
        version = str(parse_wheel_filename(name)[1])
    except InvalidWheelFilename:
        stop(f"{lock} names wheels/{name}, which is not a wheel: {RENEW}")
    return Pin(requirement.name, version, hashes, wheels / name)


def exact(version: str) -> str:
    """Return the version in its normal form, or "" if it is a pattern such as 1.*."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return ""


def merge(path: Path, pins: dict[str, Pin], pin: Pin) -> None:
    """Add a pin. Two versions of one package are an error; the same version twice takes the hashes of both."""
    name = canonicalize_name(pin.name)
    other = pins.get(name, pin)
    if not same_version(other.version, pin.version):
        stop(f"{path}: {name} is pinned twice, to {other.version} and {pin.version}; {RENEW}")
    pins[name] = Pin(pin.name, pin.version, pin.hashes | other.hashes, pin.wheel)
