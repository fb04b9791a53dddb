"""weights.lock: each file of the weights with its size and SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .problems import WRONG_USE, WeightsError

LOCK = "weights.lock"
VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BLOCK = 1 << 20


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
        """Return what stands for all bytes and paths, however they were packed and wherever they came from."""
        return digest_of((file.path, file.sha256) for file in self.files)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Lock:
    """All weights of a project."""

    weights: tuple[Weights, ...]

    def files(self) -> dict[str, File]:
        """Return all files by their paths below the folder that the model gets."""
        return {f"{one.name}/{file.path}": file for one in self.weights for file in one.files}

    @property
    def digest(self) -> str:
        """Return what stands for all bytes and paths."""
        return digest_of((path, file.sha256) for path, file in self.files().items())

    def text(self) -> str:
        """Return the content of the lock file: the same for the same weights."""
        head = {"version": VERSION, "digest": self.digest, "written by": "scripts/weights lock"}
        rows = [
            {
                "name": one.name,
                "source": one.source,
                "revision": one.revision,
                "asked": one.asked,
                "digest": one.digest,
                "files": [asdict(file) for file in one.files],
            }
            for one in self.weights
        ]
        return json.dumps({**head, "weights": rows}, indent=1, ensure_ascii=False) + "\n"


def digest_of(files: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 of the sorted lines of `sha256sum`, as sha256:HEX."""
    lines = sorted(f"{sha256}  {path}" for path, sha256 in files)
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def checked_name(name: str, where: str) -> str:
    """Return the name of weights. Raises WeightsError for one that is not a plain folder's name."""
    if not NAME.fullmatch(name):
        raise WeightsError(f"{where}: '{name}' is not a name for weights: letters, digits, - and _", WRONG_USE)
    return name


def checked_paths(paths: Iterable[str], where: str) -> list[str]:
    """Return the paths, sorted. Raises WeightsError for one that leads out of its folder or cannot be on a disk."""
    found: list[str] = sorted(paths)
    taken = {str(folder) for path in found for folder in PurePosixPath(path).parents}
    for path in found:
        if any(part in ("", ".", "..") for part in path.split("/")) or re.search(r"[\x00-\x1f\\:]", path):
            raise WeightsError(f"{where}: {path!r} is not a path below the folder of the weights")
        if path in taken:
            raise WeightsError(f"{where}: {path} appears twice, or is a file and a folder")
        taken.add(path)
    return found


def read(path: Path) -> Lock:
    """Return what a lock file says. Raises WeightsError for one that is not there or not whole."""
    try:
        return _parsed(json.loads(path.read_text(encoding="utf-8-sig")), str(path))
    except FileNotFoundError:
        raise WeightsError(f"{path} is not here: scripts/weights lock writes it") from None
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WeightsError(f"{path} is not a whole lock of weights: scripts/weights lock writes it anew") from None


def _parsed(found: Any, where: str) -> Lock:
    if found["version"] != VERSION:
        raise WeightsError(f"{where} has version {found['version']}, this program reads {VERSION}: run scripts/update")
    weights = []
    for one in found["weights"]:
        files = tuple(File(file["path"], int(file["size"]), file["sha256"]) for file in one["files"])
        checked_paths([file.path for file in files], where)
        if not all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size >= 0 for file in files):
            raise ValueError
        name, source, revision = checked_name(one["name"], where), str(one["source"]), str(one["revision"])
        weights.append(Weights(name, source, revision, files, one.get("asked")))
    if len({one.name for one in weights}) != len(weights):
        raise ValueError
    return Lock(tuple(weights))


def write(path: Path, lock: Lock) -> None:
    """Write a lock file; it is there whole or as it was."""
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


def misses(folder: Path, lock: Lock) -> str:
    """Return the first file of the lock that the folder does not hold in its size, "" where it holds all."""
    for path, file in lock.files().items():
        place = folder / path
        try:
            if place.stat().st_size != file.size:
                return path
        except OSError:
            return path
    return ""
