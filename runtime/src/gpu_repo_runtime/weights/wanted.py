"""weights.toml: which weights the owner wants.

::

    [encoder]
    source = "hf://sentence-transformers/all-MiniLM-L6-v2"
    revision = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    files = ["config.json", "*.safetensors"]   # without it: all
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .lockfile import checked_name
from .problems import WRONG_USE, WeightsError

WANTED = "weights.toml"
_KEYS = {"source", "revision", "files"}


@dataclass(frozen=True)
class Wanted:
    """Weights that the owner asks for. `files` are patterns of paths; a * reaches into folders."""

    name: str
    source: str
    revision: str = ""
    files: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Tell whether a file of the source is asked for."""
        return not self.files or any(fnmatchcase(path, pattern) for pattern in self.files)


def read(path: Path) -> list[Wanted]:
    """Return what is asked for, in the order of the file. Raises WeightsError naming the line's key."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WeightsError(
            f'{path} is not here: write [name] and source = "..." into it, see the page on weights', WRONG_USE
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WeightsError(f"{path} cannot be read: {error}", WRONG_USE) from None
    if not found:
        raise WeightsError(f"{path} names no weights", WRONG_USE)
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
