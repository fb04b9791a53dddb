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

OS_LOCK = FOLDER / "os.lock"
NEWEST, LOCKED = "newest", "locked"
ARCHITECTURE = "amd64"
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


def read_os_lock(path: Path | None = None) -> dict[str, dict[str, str]]:
    """Return the sections of the lock: `snapshot`, and for each part its packages and versions. Raises ImageError."""
    path = path or OS_LOCK
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        told = {part: dict(parser[f"{ARCHITECTURE} {part}"]) for part in PARTS}
    except (OSError, UnicodeDecodeError, configparser.Error, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise ImageError(f"{path}: cannot read the lock of Debian's packages: {reason}; {RENEW}") from error
    if empty := [f"{part} {name}" for part, packages in told.items() for name, one in packages.items() if not one]:
        raise ImageError(f"{path}: has no version of {empty[0]}; {RENEW}")
    return told | {"snapshot": dict(parser["snapshot"]) if parser.has_section("snapshot") else {}}


def pins_text(packages: dict[str, str]) -> str:
    """Return packages as lines name=version."""
    return "".join(f"{name}={version}\n" for name, version in sorted(packages.items()))


def write_system_plan(folder: Path, use_lock: bool = True) -> None:
    """Write what the recipe reads of the lock (`debian`) and what makes the layer of updates again (`refresh`).

    The day stands apart, so that a new one leaves the layers below as they are. Without a lock, everything is newest.
    Raises ImageError.
    """
    chosen = mode() if use_lock else NEWEST
    locked = read_os_lock() if use_lock and (chosen == LOCKED or OS_LOCK.is_file()) else {}
    for name in ("debian", "refresh"):
        (folder / name).mkdir(parents=True)
    (folder / "debian" / "mode").write_text(f"{chosen}\n")
    for part in PARTS:
        (folder / "debian" / f"{part}.txt").write_text(pins_text(locked.get(part, {})))
    if sources := os.environ.get("OS_SOURCES"):
        try:
            shutil.copyfile(sources, folder / "debian" / "sources.list")
        except OSError as error:
            raise ImageError(f"OS_SOURCES={sources}: cannot read the sources for apt: {error.strerror}") from error
    write_hosts(folder / "hosts")
    day = f"{datetime.now(UTC):%Y-%m-%d}\n" if chosen == NEWEST else ""
    (folder / "refresh" / "day").write_text(day)


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


def check_system(image: str, bill: Path) -> None:
    """Raise ImageError when an image's list names other packages of Debian than the lock; not with OS_LOCK=newest."""
    if mode() == NEWEST:
        return
    if found := differences(read_os_lock()["image"], debian_packages(bill)):
        rest = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise ImageError(
            f"{image}: has other packages of Debian than base-images/os.lock: {'; '.join(found[:3])}{rest}; no tag was "
            f"set: build it again, {RENEW} first where Debian has newer ones, or promote it with OS_LOCK={NEWEST}"
        )


def lock_text(folder: Path) -> str:
    """Return the lock made of the files that the recipe listed."""
    taken = f"taken={datetime.now(UTC):%Y%m%dT%H%M%SZ}\n"
    lines = [HEAD, "[snapshot]\n", taken, (folder / "snapshot.txt").read_text()]
    for part in PARTS:
        lines += [f"\n[{ARCHITECTURE} {part}]\n", (folder / f"{part}.txt").read_text()]
    return "".join(lines)


def renew(catalog: dict[str, Any], _: argparse.Namespace) -> None:
    """Write the lock anew from what Debian has now, and show what changes. Raises ImageError."""
    plan, made = BUILD / "os-lock" / "plan", BUILD / "os-lock" / "made"
    for folder in (plan, made):
        shutil.rmtree(folder, ignore_errors=True)
    write_system_plan(plan, use_lock=False)
    system = os.environ.get("OS_IMAGE") or str(catalog["operating_system"])
    command = ["docker", "buildx", "build", "--target", "os-lock", "--build-arg", f"OS_IMAGE={system}", "--no-cache"]
    command += ["--build-context", f"plan={plan}", "--output", f"type=local,dest={made}", "--progress=plain", "."]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise ImageError(f"{OS_LOCK.name} was not renewed: {''.join(last)[:400]}")
    old = read_os_lock() if OS_LOCK.is_file() else {}
    text = lock_text(made)
    part = OS_LOCK.with_name(f".part-{OS_LOCK.name}")
    part.write_text(text, encoding="utf-8")
    new = read_os_lock(part)
    lines = [line for name in PARTS for line in changed(old.get(name, {}), new[name])]
    if not lines and old:
        part.unlink()
        print(f"{OS_LOCK.relative_to(ROOT)}: Debian has nothing newer")
        return
    part.replace(OS_LOCK)
    told = "".join(f"\n  {line}" for line in lines) if old else ""
    print(f"{OS_LOCK.relative_to(ROOT)}: {len(lines)} changes{told}")


def changed(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return a line for each package that came, went or has another version."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, 'not there')} -> {new.get(name, 'gone')}" for name in names]
