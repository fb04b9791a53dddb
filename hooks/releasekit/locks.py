"""What must hold of the locks in a rendered child, and which Copier it has for its updates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

PIN = re.compile(r"(?m)^(?=[A-Za-z0-9])")
EXACT = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
OPTION = re.compile(r"(?m)^-\S+")


def is_lock(path: str) -> bool:
    """Tell whether a file of a child is one of its locks."""
    return bool(re.fullmatch(r"requirements[^/]*\.lock", path))


def pins(lock: str) -> list[str]:
    """Return what a lock holds, each package with its hashes."""
    return [pin for pin in PIN.split(re.sub(r"(?m)^#.*\n", "", lock)) if re.match("[A-Za-z0-9]", pin)]


def faults(child: Path, lock: str) -> Iterator[str]:
    """Give what is wrong with a lock: an option, a pin without a hash or against the image, another wheel."""
    for option in OPTION.findall(lock):
        yield f"has the option {option}: it would install from elsewhere than its owner's index"
    place = child / "constraints.txt"
    held = dict(EXACT.findall(place.read_text(encoding="utf-8"))) if place.is_file() else {}
    for name, version in EXACT.findall(lock):
        if held.get(name, version) != version:
            yield f"has {name} {version}, and the image holds {held[name]}: run make locks"
    for pin in pins(lock):
        if "--hash=sha256:" not in pin:
            yield f"has no hash for {pin.split()[0]}"
        for name in re.findall(r"@ file:(\S+)", pin):
            wheel = child / name
            if not wheel.is_file():
                yield f"names {name}, which is not there"
            elif f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}" not in pin:
                yield f"has another hash than {name}: run make wheel"


def copier_in(child: Path) -> Version | None:
    """Return the Copier that a child updates itself with, None where its files do not say it."""
    lock = child / "scripts" / "tools" / "copier.lock"
    found = dict(EXACT.findall(lock.read_text(encoding="utf-8"))) if lock.is_file() else {}
    return Version(found["copier"]) if "copier" in found else None
