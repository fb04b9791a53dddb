"""Packages that have no wheel: what their source archive asks for, read and never run.

A pure one can be locked by what it says of itself. One with code to compile cannot: images have no compiler.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adoption.setup_py import read_setup

LARGEST = 64 << 20  # bytes of an archive, and of a file in it
SECONDS = 60
ONLY_SOURCE = re.compile(r"Wheels are required for `([\w.-]+)`")
GONE = re.compile(  # what a setup.py of earlier times needs, and what builds it today has no more
    r"(?m)^\s*(?:from|import)\s+(pkg_resources|numpy\.distutils|imp|pip)\b|\b(use_2to3)\b"
)
COMPILED = re.compile(r"\.(c|cc|cpp|cxx|cu|pyx|pxd|rs|f|f90|go)$")
CHOOSE = ("--quiet", "--universal", "--python-version", "3.11", "--no-deps", "--no-header", "--format", "pylock.toml")


@dataclass(frozen=True)
class Archive:
    """A source archive that can be locked: its version, and what it asks for."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


class UnreadableError(Exception):
    """The archive is of no use here; the message says why."""


def settings(archives: Iterable[Archive]) -> str:
    """Return settings that let uv build nothing: of these archives it takes what was read, of the others wheels alone.

    Settings that the person names in UV_CONFIG_FILE count as well; those beside any other file do not.
    """
    own = os.environ.get("UV_CONFIG_FILE")
    try:
        found: dict[str, Any] = tomllib.loads(Path(own).read_text(encoding="utf-8")) if own else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        found = {}
    known = list(archives)
    found["pip"] = found.get("pip", {}) | {"no-build": True, "no-binary": [one.name for one in known]}
    found["pip"].pop("only-binary", None)
    found["dependency-metadata"] = [{"name": one.name, "requires-dist": list(one.requires)} for one in known]
    return tomlkit.dumps(found)


def environment() -> dict[str, str]:
    """Return the environment for uv: its settings are those in the folder that it runs in, and the person's."""
    aside = ("VIRTUAL_ENV", "UV_CONFIG_FILE", "UV_NO_CONFIG")
    return {name: value for name, value in os.environ.items() if name not in aside}


def wanted_from(message: str) -> list[str]:
    """Return the packages that uv found no wheel of, each as strictly as the message asks for it."""
    plain = re.sub(r"\s+", " ", message)
    names = dict.fromkeys(canonicalize_name(name) for name in ONLY_SOURCE.findall(plain))
    return [_asked(plain, name) for name in names]


def _asked(plain: str, name: str) -> str:
    spelled = re.escape(name).replace(r"\-", "[-_.]+")
    bound = r"[<>=!~]=?[\w.*+!]+"
    for said in ("depends on", "require"):
        for found in re.finditer(rf"(?i)\b{said} ({spelled}(?:{bound}(?:,{bound})*)?)(?= |,|$)", plain):
            try:
                return str(Requirement(found[1]))
            except InvalidRequirement:
                continue
    return name


def read_archive(uv: Path, asked: str) -> Archive:
    """Return what the source archive says that uv would choose for `asked`. Raises UnreadableError."""
    name = canonicalize_name(Requirement(asked).name)
    with TemporaryDirectory(prefix="archive-") as folder:  # within the room, the settings of the room would count
        place = Path(folder)
        (place / "uv.toml").write_text(settings([Archive(name, "")]), encoding="utf-8")
        (place / "asked.in").write_text(f"{asked}\n", encoding="utf-8")
        done = subprocess.run(
            [uv, "pip", "compile", *CHOOSE, "asked.in"],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
    if done.returncode:
        raise UnreadableError(f"no source archive of {asked} can be found")
    entry = tomllib.loads(done.stdout)["packages"][0]
    if "sdist" not in entry:
        raise UnreadableError(f"{asked} has no source archive")
    return Archive(name, str(entry["version"]), required(contents(_fetched(entry["sdist"]))))


def _fetched(sdist: dict[str, object]) -> bytes:
    try:
        address = str(sdist.get("url") or Path(str(sdist.get("path"))).as_uri())
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            data: bytes = answer.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise UnreadableError(f"its source archive cannot be fetched ({error})") from error
    hashes = sdist.get("hashes")
    known = hashes.get("sha256") if isinstance(hashes, dict) else None
    if len(data) > LARGEST or (known and hashlib.sha256(data).hexdigest() != known):
        raise UnreadableError("its source archive is too large, or not the one that the index names")
    return data


def contents(data: bytes) -> dict[str, str]:
    """Return the files of an archive by their names, with the text of those that tell what it is."""
    told = re.compile(r"(^[^/]+/(PKG-INFO|setup\.py)|\.egg-info/requires\.txt)$")
    try:
        if data[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                names = archive.namelist()
                return {n: archive.read(n).decode(errors="replace") if told.search(n) else "" for n in names}
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            found = {}
            for member in tar.getmembers():
                file = tar.extractfile(member) if told.search(member.name) and member.size < LARGEST else None
                found[member.name] = file.read().decode(errors="replace") if file else ""
            return found
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise UnreadableError("its source archive cannot be opened") from error


def required(files: dict[str, str]) -> tuple[str, ...]:
    """Return what an archive of these files asks for. Raises UnreadableError where only running it would tell."""
    if compiled := next((name for name in files if COMPILED.search(name)), ""):
        raise UnreadableError(f"it has only a source archive, with code to compile ({compiled.partition('/')[2]})")
    if gone := GONE.search(next((text for name, text in files.items() if re.fullmatch("[^/]+/setup.py", name)), "")):
        raise UnreadableError(f"it has only a source archive, whose setup.py needs {gone[1] or gone[2]}, which is gone")
    about = message_from_string(next((text for name, text in files.items() if name.endswith("/PKG-INFO")), ""))
    said = about.get_all("Requires-Dist") or []
    if said or not any(".egg-info/" in name for name in files):
        version = tuple(int(number) for number in re.findall(r"\d+", about.get("Metadata-Version", "0")))
        if not said and version < (2, 2):
            return _of_setup_py(files)
        return tuple(said)
    return _of_setuptools(next((text for name, text in files.items() if name.endswith("requires.txt")), ""))


def _of_setup_py(files: dict[str, str]) -> tuple[str, ...]:
    """Return what a setup.py asks for that says all of it in plain words, as the only file that could."""
    text = next((text for name, text in files.items() if re.fullmatch("[^/]+/setup.py", name)), "")
    found = read_setup(text, Path(os.devnull))
    other = any(re.fullmatch(r"[^/]+/(setup\.cfg|pyproject\.toml)", name) for name in files)
    if other or found.partial or found.calls != 1:
        raise UnreadableError("it has only a source archive, and running it alone tells what that asks for")
    return tuple(str(asked) for asked in found.known.get("install_requires", []))


def _of_setuptools(text: str) -> tuple[str, ...]:
    """Return the lines of requires.txt as PEP 508: `[extra:marker]` stands above what it is about."""
    found, marker = [], ""
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if line.startswith("["):
            extra, _, when = line.strip("[]").partition(":")
            parts = [f"({when})" if when else "", f"extra == '{extra}'" if extra else ""]
            marker = " and ".join(filter(None, parts))
        else:
            found.append(f"{line} ; {marker}" if marker else line)
    return tuple(found)
