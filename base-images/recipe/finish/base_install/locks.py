"""Reading a child's lock: the exact packages that this Python and platform install."""

import re
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .problem import WRONG_USE, stop

CARRIED = re.compile(r"(?:\S+ @ file:|\./)wheels/(\S+\.whl)")
RENEW = "run scripts/lock and commit the locks"


class Pin(NamedTuple):
    """A locked package, its line for uv, and whether the child carries its wheel."""

    name: NormalizedName
    version: Version
    line: str
    carried: bool


def read_pins(lock: Path, wheels: Path) -> list[Pin]:
    """Return the pins of a requirements file with hashes. wheels: the folder of the wheels that the child carries."""
    try:
        text = lock.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        stop(f"{lock}: cannot read the lock: {getattr(error, 'strerror', None) or 'not UTF-8'}; mount it", WRONG_USE)
    pins: dict[NormalizedName, Pin] = {}
    for raw in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#", raw)[0].strip()
        pin = read_line(line, lock, wheels) if line and line != "--require-hashes" else None
        if pin and pins.setdefault(pin.name, pin).version != pin.version:
            stop(f"{lock}: {pin.name} has two versions, {pins[pin.name].version} and {pin.version}; {RENEW}")
    return list(pins.values())


def read_line(line: str, lock: Path, wheels: Path) -> Pin | None:
    """Return the pin of a line, or None where its marker is about another platform."""
    hashes = re.findall(r"--hash=sha256:[0-9a-fA-F]{64}\b", line)
    text = re.sub(r"//[^/@\s]+@", "//...@", line.split(" --hash=")[0].strip())  # no password in a log
    carried = CARRIED.match(text)
    if carried and not (wheels / carried[1]).is_file():
        stop(f"{lock} names wheels/{carried[1]}, which does not exist; {RENEW}")
    try:
        # By name: a path would be recorded in the image.
        named = "{}=={}".format(*parse_wheel_filename(carried[1])[:2]) + text[carried.end() :] if carried else text
        requirement = Requirement(named)
        name, version = canonicalize_name(requirement.name), Version(str(requirement.specifier).removeprefix("=="))
    except (InvalidRequirement, InvalidVersion, InvalidWheelFilename):
        stop(f"{lock}: {text!r} is not a line NAME==VERSION; {RENEW}")
    if not hashes:
        stop(f"{lock}: {text!r} has no sha256 hash; {RENEW}")
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    return Pin(name, version, " ".join([f"{name}=={version}", *hashes]), bool(carried))
