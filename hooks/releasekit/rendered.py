"""What must not be in a rendered child, and what its files ask of the machines that check it out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from gpu_repo_runtime.update.outcome import files_under
from gpu_repo_runtime.update.ownership import OWNERSHIP, owners_in
from packaging.version import Version

MARKER = re.compile(r"(?m)^(<{7}|>{7}|\|{7})( |$)")
ODD_NAME = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ](/|$)|(?i:(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$))')
PIN = re.compile(r"(?m)^(?=[A-Za-z0-9])")
COPIER = re.compile(r"(?m)^copier==([^\s;\\]+)")


def faults(child: Path) -> Iterator[tuple[str, str]]:
    """Give path and fault of each file that no child should get."""
    try:
        yaml.safe_load((child / OWNERSHIP).read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass  # then no file is on a list, and each is named
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        yield OWNERSHIP, f"cannot be read: {error}"
    owners, paths = owners_in(child), sorted(files_under(child))
    names: dict[str, str] = {}
    for path in paths:
        if owners.of(path) is None:
            yield path, "is on neither list of templates/ownership.yml"
        if ODD_NAME.search(path):
            yield path, "has a name that Windows cannot check out"
        if names.setdefault(path.lower(), path) != path:
            yield path, f"differs from {names[path.lower()]} in capitals only: not every system can check it out"
        if (child / path).is_symlink():
            yield path, "is a link: not every system can check it out"
        else:
            yield from ((path, fault) for fault in faults_of_text((child / path).read_bytes()))
        if re.fullmatch(r"requirements[^/]*\.lock", path) and not (child / path).is_symlink():
            yield from ((path, fault) for fault in faults_of_lock(child, (child / path).read_text(errors="replace")))


def faults_of_text(data: bytes) -> Iterator[str]:
    """Give what is wrong with the bytes of a file; other binary files than UTF-16 are taken as they are."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "is in UTF-16: write it in UTF-8"
    elif b"\0" not in data:
        text = data.decode("utf-8", errors="replace")
        if "\ufffd" in text and "\ufffd".encode() not in data:
            yield "is not UTF-8"
        if "\r\n" in text:
            yield "has the line ends of Windows: shells do not read them"
        if MARKER.search(text):
            yield "has conflict markers"


def faults_of_lock(child: Path, lock: str) -> Iterator[str]:
    """Give what is wrong with a lock: a pin without a hash, a wheel that is missing or another than is meant."""
    for pin in PIN.split(re.sub(r"(?m)^#.*\n", "", lock)):
        if not pin.strip():
            continue
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
    found = COPIER.search(lock.read_text(encoding="utf-8")) if lock.is_file() else None
    return Version(found[1]) if found else None
