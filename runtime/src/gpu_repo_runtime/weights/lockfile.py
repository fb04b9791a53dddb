"""weights.lock: each file of the weights with its size and SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .problems import WeightsError

LOCK = "weights.lock"
VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class File:
    """A file of weights; `path` is below their folder."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Weights:
    """Weights with one name, from one source at one revision. `asked`: revision and files in weights.toml."""

    name: str
    source: str
    revision: str
    files: tuple[File, ...]
    asked: dict[str, Any] | None = None  # locks of version 0.5 do not have it

    @property
    def digest(self) -> str:
        """Return a digest of all paths and bytes, whatever their source and packing."""
        return digest_of((file.path, file.sha256) for file in self.files)


@dataclass(frozen=True)
class Lock:
    """All weights of a project."""

    weights: tuple[Weights, ...]

    def files(self) -> dict[str, File]:
        """Return all files by their paths below the folder that the model gets."""
        return {f"{one.name}/{file.path}": file for one in self.weights for file in one.files}

    @property
    def digest(self) -> str:
        """Return a digest of all paths and bytes."""
        return digest_of((path, file.sha256) for path, file in self.files().items())

    def text(self) -> str:
        """Return the content of the lock file: the same for the same weights."""
        head = {"version": VERSION, "digest": self.digest, "written by": "scripts/weights lock"}
        return json.dumps({**head, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def digest_of(files: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 of the sorted lines of `sha256sum`, as sha256:HEX."""
    lines = sorted(f"{sha256}  {path}" for path, sha256 in files)
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def is_below(path: str) -> bool:
    """Return whether a path stays in its folder and every disk can have it."""
    odd = re.search(r"[\x00-\x1f\\:]", path)
    return not odd and all(part not in ("", ".", "..") for part in path.split("/"))


def read(path: Path) -> Lock:
    """Read a lock file. Raises WeightsError for one that is missing or damaged."""
    try:
        return _parsed(json.loads(path.read_text(encoding="utf-8-sig")), path)
    except FileNotFoundError:
        raise WeightsError(f"{path} is missing: scripts/weights lock writes it") from None
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WeightsError(f"{path} is not a valid lock of weights: scripts/weights lock writes it anew") from None


def _parsed(found: Any, path: Path) -> Lock:
    if found["version"] != VERSION:
        raise WeightsError(f"{path} has version {found['version']}, expected {VERSION}: run scripts/update")
    weights = []
    for one in found["weights"]:
        files = tuple(File(file["path"], int(file["size"]), file["sha256"]) for file in one["files"])
        good = [is_below(file.path) and re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size >= 0 for file in files]
        if not (all(good) and NAME.fullmatch(one["name"])):
            raise ValueError
        weights.append(Weights(one["name"], str(one["source"]), str(one["revision"]), files, one.get("asked")))
    lock = Lock(tuple(weights))
    if len(lock.files()) != sum(len(one.files) for one in weights):  # as after a merge that kept both sides
        raise ValueError
    return lock


def write(path: Path, lock: Lock) -> None:
    """Write a lock file; it appears whole or stays as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(lock.text(), encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
