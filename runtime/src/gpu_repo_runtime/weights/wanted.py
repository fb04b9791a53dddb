"""weights.toml: which weights the owner wants.

::

    [encoder]
    source = "hf://sentence-transformers/all-MiniLM-L6-v2"
    revision = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    files = ["config.json", "*.safetensors"]   # default: all
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

from .lockfile import LOCK, NAME, Lock, Weights, is_below
from .problems import WRONG_USE, WeightsError

WANTED = "weights.toml"
_KEYS = {"source", "revision", "files"}
_SECRET = re.compile(r"(?i)(^|[&?_-])(sig|signature|token|secret|password|passwd|credential|api_?key|key|auth|jwt)=")


@dataclass(frozen=True)
class Wanted:
    """An entry of weights.toml. `files` are patterns of paths; a * also matches /."""

    name: str
    source: str
    revision: str = ""
    files: tuple[str, ...] = ()

    @property
    def asked(self) -> dict[str, Any]:
        """Return what weights.lock records of the entry besides name and source."""
        return {"revision": self.revision, "files": list(self.files)}

    def chosen(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that `files` names, sorted. Raises WeightsError for a pattern without any."""
        paths = sorted(paths)
        found: set[str] = set()
        for pattern in self.files or ("*",):
            matching = {path for path in paths if fnmatchcase(path, pattern)}
            if not matching:
                what = f"no file of {self.source} matches {pattern}; it has {', '.join(paths[:5]) or 'no files'}"
                raise WeightsError(f"[{self.name}]: {what}", WRONG_USE)
            found |= matching
        if odd := [path for path in found if not is_below(path)]:
            raise WeightsError(f"{self.source}: {odd[0]!r} is not a path below the folder of the weights")
        return sorted(found)

    def is_locked_in(self, there: Weights | None) -> bool:
        """Return whether an entry of weights.lock was written for this one."""
        if there is None or there.source != self.source:
            return False
        if there.asked is None:  # version 0.5 recorded no patterns, and the commit instead of the branch or tag
            return self.revision == there.revision or len(self.revision) < 40
        return there.asked == self.asked


def check_current(root: Path, lock: Lock) -> None:
    """Raise WeightsError if weights.toml of a repository has changed since its lock was written."""
    if (root / WANTED).is_file():
        locked = {one.name: one for one in lock.weights}
        changed = [one.name for one in read(root / WANTED) if not one.is_locked_in(locked.pop(one.name, None))]
        if names := [*changed, *locked]:
            raise WeightsError(f"{root / LOCK} is out of date: [{names[0]}] was changed: run scripts/weights lock")


def read(path: Path) -> list[Wanted]:
    """Return the entries in the order of the file. Raises WeightsError naming the entry."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise WeightsError(f'{path} is missing: write [name] and source = "..." into it', WRONG_USE) from None
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read: {error}", WRONG_USE) from None
    if not found:
        raise WeightsError(f"{path} names no weights; a model without any needs neither it nor {LOCK}", WRONG_USE)
    return [_wanted(name, entry, f"{path}, [{name}]") for name, entry in found.items()]


def _wanted(name: str, entry: Any, where: str) -> Wanted:
    if not NAME.fullmatch(name):
        raise WeightsError(f"{where}: invalid name: use letters, digits, - and _", WRONG_USE)
    entry = entry if isinstance(entry, dict) else {}
    source, revision, files = entry.get("source", ""), entry.get("revision", ""), entry.get("files", [])
    texts = [source, revision, *files] if isinstance(files, list) else [None]
    if not source or entry.keys() - _KEYS or not all(isinstance(text, str) for text in texts):
        keys = ", ".join(entry) or "no keys"
        form = 'source = "...", and if needed revision = "..." and files = ["..."]'
        raise WeightsError(f"{where}: expected {form}; it has {keys}", WRONG_USE)
    parts = urlsplit(source)
    if parts.username not in (None, "anonymous") or _SECRET.search(parts.query):  # a user alone may be a token
        raise WeightsError(
            f"{where}: source has a password or a signature in it, which git would keep: remove it; a login for "
            "https:// belongs in ~/.netrc, that of a bucket or a registry where their tools look",
            WRONG_USE,
        )
    return Wanted(name, source, revision, tuple(files))
