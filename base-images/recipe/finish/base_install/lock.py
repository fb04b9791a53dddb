"""Reading a child's lock: one exact version and its hashes for each package that this platform installs."""

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from .problem import stop

RENEW = "make the lock with scripts/lock"
# Options that change nothing about what base-install does with a lock.
HARMLESS_OPTIONS = ("--require-hashes", "--prefer-binary")


@dataclass(frozen=True)
class Pin:
    """A package with its exact version, and the sha256 hashes of the files that may be taken for it."""

    name: str
    version: str
    hashes: frozenset[str]

    @property
    def line(self) -> str:
        """The pin as a line of a requirements file."""
        return " ".join([f"{self.name}=={self.version}", *sorted(self.hashes)])


def read_lock(path: Path) -> dict[str, Pin]:
    """Return the pins for this platform by normal name. Raises Problem for whatever is not a complete pin."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        stop(f"{path}: not a text in UTF-8 (byte {error.start}); {RENEW}")
    pins: dict[str, Pin] = {}
    for raw in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#", raw)[0].strip()
        if not line or line in HARMLESS_OPTIONS:
            continue
        if pin := read_pin(path, line):
            merge(path, pins, pin)
    return pins


def read_pin(path: Path, line: str) -> Pin | None:
    """Return the pin of a line, or None when its marker is about other platforms."""
    if line.startswith("-") and not line.startswith(("-e", "--editable")):
        option = re.split(r"[=\s]", line)[0]
        stop(
            f"{path}: the option {option} does not belong in a lock, which holds packages alone: take the line out; "
            "where packages come from is said to the build (PIP_INDEX_URL, or a pip.conf as a build secret)"
        )
    hashes = frozenset(re.findall(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)", line))
    text = re.sub(r"--hash=\S+", "", line).strip()
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        stop(f"{path}: cannot read {text!r}: expected name==version with hashes; {RENEW}")
    specifiers = list(requirement.specifier)
    if requirement.url or len(specifiers) != 1 or specifiers[0].operator != "==" or not hashes:
        stop(f"{path}: {text!r} needs one exact version and a sha256 hash; {RENEW}")
    version = exact(specifiers[0].version) or stop(f"{path}: {text!r} needs one exact version, not a pattern; {RENEW}")
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    return Pin(requirement.name, version, hashes)


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
    if other.version != pin.version:
        stop(f"{path}: {name} is pinned twice, to {other.version} and {pin.version}; {RENEW}")
    pins[name] = Pin(pin.name, pin.version, pin.hashes | other.hashes)
