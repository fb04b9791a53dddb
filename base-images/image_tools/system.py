"""Debian's packages in the images: base-images/os.lock pins them, `make lock-os` renews it.

OS_LOCK=newest builds and promotes what Debian has now instead; OS_SOURCES=file names other sources, such as a snapshot.
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from .catalog import BUILD, FOLDER, ROOT, ImageError, sha256_of
from .platforms import architecture as architecture_of
from .platforms import check_buildx, check_emulation, own_platform

OS_LOCK = FOLDER / "os.lock"
NEWEST, LOCKED = "newest", "locked"
ARCHITECTURES = ("amd64", "arm64")  # Debian's words for the processors of the images
PARTS = ("image", "installer", "devel")  # of every image, of the stage that installs, of the devel image in addition
RENEW = "renew it with `make lock-os`"
FILE_TIME = 1577836800  # as in recipe/install/file_times.py
HEAD = """\
# Debian's packages in the images, written by `make lock-os`; `make images` installs exactly these.
# snapshot: the state of each of Debian's releases that they come from, and when they were taken (UTC).
"""


def mode() -> str:
    """Return whether Debian's packages are those of the lock or the newest, as OS_LOCK says. Raises ImageError."""
    told = os.environ.get("OS_LOCK", "")
    if told not in ("", NEWEST):
        raise ImageError(f"OS_LOCK={told}: expected {NEWEST}, or nothing for the versions of base-images/os.lock")
    return told or LOCKED


def identity() -> str:
    """Return what an image says of the lock that it was built by: its SHA-256, or `newest`. Raises ImageError."""
    if mode() == NEWEST:
        return NEWEST
    if not OS_LOCK.is_file():
        raise ImageError(f"{OS_LOCK}: no lock of Debian's packages there; {RENEW}, or build with OS_LOCK={NEWEST}")
    return sha256_of(OS_LOCK)


def read_os_lock(path: Path | None = None, architecture: str = ARCHITECTURES[0]) -> dict[str, dict[str, str]]:
    """Return the sections of the lock: `snapshot`, and for each part its packages and versions on an architecture.

    Raises ImageError.
    """
    path = path or OS_LOCK
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        told = {part: dict(parser[f"{architecture} {part}"]) for part in PARTS}
    except (OSError, UnicodeDecodeError, configparser.Error, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise ImageError(f"{path}: cannot read the lock of Debian's packages: {reason}; {RENEW}") from error
    if empty := [f"{part} {name}" for part, packages in told.items() for name, one in packages.items() if not one]:
        raise ImageError(f"{path}: has no version of {empty[0]}; {RENEW}")
    return told | {"snapshot": dict(parser["snapshot"]) if parser.has_section("snapshot") else {}}


def pins_text(packages: dict[str, str]) -> str:
    """Return packages as lines name=version."""
    return "".join(f"{name}={version}\n" for name, version in sorted(packages.items()))


def write_system_plan(
    folder: Path,
    use_lock: bool = True,
    architecture: str = ARCHITECTURES[0],
    builder: str = ARCHITECTURES[0],
) -> None:
    """Write what the recipe reads of the lock (`debian`) and what makes the layer of updates again (`refresh`).

    architecture: that of the image. builder: that of the machine, which the stage of the installer is for (`builder`).

    The day stands apart, so that a new one leaves the layers below as they are. Without a lock, everything is newest.
    Raises ImageError.
    """
    chosen = mode() if use_lock else NEWEST
    is_read = use_lock and (chosen == LOCKED or OS_LOCK.is_file())
    for name, one in (("debian", architecture), ("builder", builder)):
        write_debian(folder / name, chosen, read_os_lock(architecture=one) if is_read else {})
    write_hosts(folder / "hosts")
    (folder / "refresh").mkdir()
    day = f"{datetime.now(UTC):%Y-%m-%d}\n" if chosen == NEWEST else ""
    (folder / "refresh" / "day").write_text(day)


def write_debian(folder: Path, chosen: str, locked: dict[str, dict[str, str]]) -> None:
    """Write what debian.sh reads: the mode, the pins of each part, other sources where they are asked for."""
    folder.mkdir(parents=True)
    (folder / "mode").write_text(f"{chosen}\n")
    for part in PARTS:
        (folder / f"{part}.txt").write_text(pins_text(locked.get(part, {})))
    if sources := os.environ.get("OS_SOURCES"):
        try:
            shutil.copyfile(sources, folder / "sources.list")
        except OSError as error:
            raise ImageError(f"OS_SOURCES={sources}: cannot read the sources for apt: {error.strerror}") from error


def write_hosts(folder: Path) -> None:
    """Write the image's /etc/hosts under a folder, with times and modes that no day and no umask changes."""
    path = folder / "etc" / "hosts"
    path.parent.mkdir(parents=True)
    shutil.copyfile(FOLDER / "recipe" / "hosts", path)
    for one, permissions in ((path, 0o644), (path.parent, 0o755), (folder, 0o755)):
        one.chmod(permissions)
        os.utime(one, (FILE_TIME, FILE_TIME))


def debian_packages(bill: Path) -> dict[str, str]:
    """Return the packages of Debian in an image's list (SPDX), with their versions. Raises ImageError."""
    try:
        listed = json.loads(bill.read_text(encoding="utf-8"))["packages"]
        references = [one for entry in listed for one in entry.get("externalRefs") or ()]
        urls = [PackageURL.from_string(one["referenceLocator"]) for one in references if one["referenceType"] == "purl"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImageError(f"{bill}: cannot read this package list: {error}; create it with `make sbom`") from error
    return {url.name: str(url.version) for url in urls if url.type == "deb"}


def differences(locked: dict[str, str], there: dict[str, str]) -> list[str]:
    """Return a line for each package that an image has in another version than the lock, in addition, or not."""
    names = sorted(name for name in locked.keys() | there.keys() if locked.get(name) != there.get(name))
    return [f"{name} {there.get(name, 'is missing')}, os.lock has {locked.get(name, 'none')}" for name in names]


def check_system(image: str, bill: Path, architecture: str = ARCHITECTURES[0], has_own: bool = False) -> None:
    """Raise ImageError when an image's list names other packages of Debian than the lock; not with OS_LOCK=newest.

    has_own: the row has packages in addition (`apt` in the catalogue), which the lock does not pin.
    """
    if mode() == NEWEST:
        return
    locked, there = read_os_lock(architecture=architecture)["image"], debian_packages(bill)
    if has_own:
        there = {name: version for name, version in there.items() if name in locked}
    if found := differences(locked, there):
        rest = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise ImageError(
            f"{image}: has other packages of Debian than base-images/os.lock: {'; '.join(found[:3])}{rest}; no tag was "
            f"set: build it again, {RENEW} first where Debian has newer ones, or promote it with OS_LOCK={NEWEST}"
        )


def lock_text(snapshot: dict[str, str], locked: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return the lock: the state of Debian's releases, and by architecture the packages of each part."""
    sections = [HEAD, "[snapshot]\n", pins_text(snapshot)]
    for architecture, parts in locked.items():
        for part in PARTS:
            sections += [f"\n[{architecture} {part}]\n", pins_text(parts[part])]
    return "".join(sections)


def system_image(catalog: dict[str, Any], platform: str) -> str:
    """Return the operating system image of a platform: OS_IMAGE, of this machine's own BUILD_OS_IMAGE before it."""
    own = os.environ.get("BUILD_OS_IMAGE") if platform == own_platform() else ""
    return own or os.environ.get("OS_IMAGE") or str(catalog["operating_system"])


def list_system(catalog: dict[str, Any], platform: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return Debian's releases as they are now, and what a lock pins of them on a platform. Raises ImageError."""
    check_buildx()
    check_emulation(platform)
    plan, made = BUILD / "os-lock" / "plan", BUILD / "os-lock" / "made"
    for folder in (plan, made):
        shutil.rmtree(folder, ignore_errors=True)
    write_system_plan(plan, use_lock=False)
    command = ["docker", "buildx", "build", "--target", "os-lock", "--platform", platform, "--no-cache"]
    command += ["--build-arg", f"OS_IMAGE={system_image(catalog, platform)}", "--build-context", f"plan={plan}"]
    command += ["--output", f"type=local,dest={made}", "--progress=plain", "."]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise ImageError(f"{OS_LOCK.name} was not renewed: {''.join(last)[:400]}")
    return read_pins(made / "snapshot.txt"), {part: read_pins(made / f"{part}.txt") for part in PARTS}


def read_pins(file: Path) -> dict[str, str]:
    """Return the lines name=version of a file."""
    pairs = (line.partition("=") for line in file.read_text().splitlines())
    return {name: version for name, _, version in pairs}


def renew(catalog: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the lock anew from what Debian has now, and show what changes. Raises ImageError.

    It renews this machine's platform, or that of PLATFORM; the others keep their versions.
    """
    chosen = arguments.platform
    there = OS_LOCK.read_text(encoding="utf-8") if OS_LOCK.is_file() else ""
    old = {one: read_os_lock(architecture=one) for one in ARCHITECTURES if f"[{one} image]" in there}
    if chosen and architecture_of(chosen) not in ARCHITECTURES:
        raise ImageError(f"no image is made for {chosen}; PLATFORM can be linux/{', linux/'.join(ARCHITECTURES)}")
    new = {one: {part: told[part] for part in PARTS} for one, told in old.items()}
    snapshot: dict[str, str] = {}
    # Another platform needs QEMU, so it is renewed only where PLATFORM names it.
    for one in [architecture_of(chosen or own_platform())]:
        snapshot, new[one] = list_system(catalog, f"linux/{one}")
    lines = [f"{one}: {line}" for one in new for part in PARTS for line in changed(*pair(old, new, one, part))]
    if not lines and old:
        print(f"{OS_LOCK.relative_to(ROOT)}: Debian has nothing newer")
        return
    taken = {"taken": f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"}
    part = OS_LOCK.with_name(f".part-{OS_LOCK.name}")
    part.write_text(lock_text(taken | snapshot, new), encoding="utf-8")
    part.replace(OS_LOCK)
    told = "".join(f"\n  {line}" for line in lines) if old else ""
    print(f"{OS_LOCK.relative_to(ROOT)}: {len(lines)} changes{told}")


def pair(
    old: dict[str, Any], new: dict[str, Any], architecture: str, part: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the old and the new packages of a part; none for an architecture that the old lock lacks."""
    return old.get(architecture, {}).get(part, {}), new[architecture][part]


def changed(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return a line for each package that came, went or has another version."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, 'not there')} -> {new.get(name, 'gone')}" for name in names]
