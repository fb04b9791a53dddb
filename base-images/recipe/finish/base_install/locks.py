"""Reading a child's lock: the exact packages that this Python and platform install.

Two forms: requirements*.lock, which `uv pip compile` writes, and uv.lock, which `uv export` turns into the first.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .uv import WRONG_USE, reason, stop, uv

CARRIED = re.compile(r"(?:\S+ @ file:|\./)wheels/(\S+\.whl)")
RENEW = "run scripts/lock and commit the locks"
EXPORT = ("export", "--frozen", "--offline", "--no-emit-project", "--no-default-groups", "--no-header", "--no-annotate")


class Pin(NamedTuple):
    """A locked package, its line for uv, and whether the child carries its wheel."""

    name: NormalizedName
    version: Version
    line: str
    carried: bool


def read_pins(text: str, lock: Path, wheels: Path) -> list[Pin]:
    """Return the pins of a requirements file with hashes. wheels: the folder of the wheels that the child carries."""
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


def export_uv_lock(folder: Path, choice: list[str]) -> str:
    """Return uv.lock as a requirements file; stop if it does not match pyproject.toml. Needs no network.

    choice: options of uv for groups and extras.
    """
    for name in ("pyproject.toml", "uv.lock"):
        if not (folder / name).is_file():
            stop(f"{folder / name}: no such file; mount pyproject.toml, uv.lock and wheels/ into the step", WRONG_USE)
    # Named, the lock's own indexes count as known whatever this build's default index is.
    indexes = sorted(set(re.findall(r'registry = "([^"]+)"', (folder / "uv.lock").read_text())))
    checked = uv("lock", "--check", "--offline", *(f"--index={index}" for index in indexes), folder=folder)
    # Where the lock is stale, uv resolves again, and reports without a network that it knows no packages.
    if re.search("needs to be updated|network was disabled|not found in the cache", checked.stderr):
        stop("uv.lock does not match pyproject.toml: run `uv lock` and commit uv.lock")
    exported = uv(*EXPORT, *choice, folder=folder)
    if failed := checked.stderr if checked.returncode else exported.stderr if exported.returncode else "":
        stop(f"uv cannot use uv.lock: {reason(failed)}")
    return exported.stdout


def explicit_indexes(folder: Path, pins: Iterable[Pin]) -> list[str]:
    """Return as options the indexes of pyproject.toml that uv asks only by name, as far as pins are from them."""
    if not (folder / "uv.lock").is_file():
        return []
    lock, project = (tomllib.loads((folder / name).read_text()) for name in ("uv.lock", "pyproject.toml"))
    origins = {(one["name"], one.get("version")): one["source"].get("registry", "") for one in lock["package"]}
    wanted = {origins.get((pin.name, str(pin.version)), "").rstrip("/") for pin in pins}
    known = project.get("tool", {}).get("uv", {}).get("index", [])
    named = (one for one in known if one.get("explicit") and one["url"].rstrip("/") in wanted)
    return [f"--index={one['name']}={one['url']}" for one in named]
