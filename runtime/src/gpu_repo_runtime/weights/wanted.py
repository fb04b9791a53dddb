"""weights.toml: which weights the owner wants.

::

    [encoder]
    source = "hf://sentence-transformers/all-MiniLM-L6-v2"
    revision = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    files = ["config.json", "*.safetensors"]   # without it: all
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .lockfile import LOCK, Lock, checked_name
from .problems import WRONG_USE, WeightsError

WANTED = "weights.toml"
_KEYS = {"source", "revision", "files"}
_EXACT = re.compile(r"[0-9a-f]{40}|sha256:[0-9a-f]{64}")
_SECRET = re.compile(r"(?i)(^|[&?_-])(sig|signature|token|secret|password|passwd|credential|api_?key|key|auth|jwt)=")
_LOGGED_IN = {"http", "https", "hf", "oci"}  # a user alone may be a token; s3://anonymous@... has no secret


@dataclass(frozen=True)
class Wanted:
    """Weights that the owner asks for. `files` are patterns of paths; a * reaches into folders."""

    name: str
    source: str
    revision: str = ""
    files: tuple[str, ...] = ()

    @property
    def asked(self) -> dict[str, Any]:
        """Return what weights.lock records of the entry."""
        return {"revision": self.revision, "files": list(self.files)}

    def takes(self, path: str) -> bool:
        """Tell whether a file of the source is asked for."""
        return not self.files or any(fnmatchcase(path, pattern) for pattern in self.files)

    def lacks(self, paths: Iterable[str]) -> list[str]:
        """Return the entries of `files` that none of the paths answers to."""
        return [pattern for pattern in self.files if not any(fnmatchcase(path, pattern) for path in paths)]


def stale(root: Path, lock: Lock) -> str:
    """Return the name in weights.toml of a repository whose entry is not the one that was locked, "" where all are.

    A lock of version 0.5 does not have `files`, and not the branch or tag whose commit it has.
    """
    if not (root / WANTED).is_file():
        return ""
    asked = {one.name: one for one in read(root / WANTED)}
    locked = {one.name: one for one in lock.weights}
    for name in asked | locked:
        one, there = asked.get(name), locked.get(name)
        if one is None or there is None or one.source != there.source:
            return name
        moved = bool(_EXACT.fullmatch(one.revision)) and one.revision != there.revision
        if there.asked != one.asked if there.asked is not None else moved:
            return name
    return ""


def shown(source: str) -> str:
    """Return a source without a password and what stands behind ?, which may be one."""
    scheme, mark, rest = source.partition("://")
    return scheme + mark + rest.partition("?")[0].rpartition("@")[2] if mark else source


def without_login(source: str) -> str:
    """Return a source as it may stand in weights.toml."""
    scheme, mark, rest = source.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else source


def check_secret(one: Wanted) -> None:
    """Raise WeightsError for a source with a secret in it: both files are committed."""
    parts = urlsplit(one.source)
    named = parts.username and parts.scheme in _LOGGED_IN
    if "://" in one.source and (parts.password or named or _SECRET.search(parts.query)):
        raise WeightsError(
            f"[{one.name}]: {shown(one.source)} has a password or a signature in it, which git would keep: remove "
            "it; put a login for https:// into ~/.netrc, that of a bucket or a registry where their tools look",
            WRONG_USE,
        )


def read(path: Path) -> list[Wanted]:
    """Return what is asked for, in the order of the file. Raises WeightsError naming the line's key."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise WeightsError(
            f'{path} is not here: write [name] and source = "..." into it, see the page on weights', WRONG_USE
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WeightsError(f"{path} cannot be read: {error}", WRONG_USE) from None
    if not found:
        raise WeightsError(f"{path} names no weights; a model without any needs neither it nor {LOCK}", WRONG_USE)
    return [_wanted(name, entry, path) for name, entry in found.items()]


def _wanted(name: str, entry: Any, path: Path) -> Wanted:
    where = f"{path}, [{name}]"
    checked_name(name, where)
    unknown = sorted(entry.keys() - _KEYS) if isinstance(entry, dict) else []
    if not isinstance(entry, dict) or unknown:
        what = f"{unknown[0]} is unknown" if unknown else f"{name} is not a table"
        raise WeightsError(f"{where}: {what}: there are source, revision and files", WRONG_USE)
    source, revision, files = entry.get("source"), entry.get("revision", ""), entry.get("files", [])
    if not isinstance(source, str) or not source:
        raise WeightsError(f'{where}: say where they come from: source = "..."', WRONG_USE)
    if not isinstance(revision, str) or not isinstance(files, list) or not all(isinstance(one, str) for one in files):
        raise WeightsError(f"{where}: revision is a text in quotes, files a list of texts", WRONG_USE)
    return Wanted(name, source, revision, tuple(files))
