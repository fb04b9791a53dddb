"""The plan beside the output: what a restart must not change. A restart with another one is refused."""

import contextlib
import hashlib
import importlib.util
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from .exits import BadConfiguration
from .inputs import PLAN as NAME
from .inputs import InputFile
from .output import FinishedElsewhere, Output
from .parts import Columns, Limits
from .publishing import to_json
from .reading import Unit, units_of
from .settings import Shard

# What a plan says of a file that an option decides.
_READING = ("delimiter", "encoding", "header", "nulls", "format", "rows")
_NO_OPTIONS = {"code": "the code has changed", "weights": "the weights, or other files beside model.py, have changed"}
# What tools leave beside code.
_LEFT_BY_TOOLS = ("__pycache__", ".egg-info", ".dist-info", ".pyc")


def code_fingerprint(package: str) -> str:
    """Return the SHA-256 of all Python files of the owner's packages and of the runtime."""
    own, runtime = own_files(package), _files_below(Path(__file__).resolve().parent.parent)
    digest = hashlib.sha256()
    for name, path in [*own.items(), *runtime.items()]:
        if path.suffix == ".py":
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def own_files(package: str) -> dict[str, Path]:
    """Return the files of the owner's package by their paths in it, and those of the packages beside it in src."""
    folder = folder_of(package)
    found = _files_below(folder)
    if folder.parent.name == "src":
        others = _files_below(folder.parent)
        found |= {f"../{name}": path for name, path in others.items() if not path.is_relative_to(folder)}
    return found


def _files_below(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths in it, in order, without what tools leave there."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: found[name] for name in sorted(found) if not any(map(_is_left, Path(name).parts))}


def _is_left(name: str) -> bool:
    return name.startswith(".") or name.endswith(_LEFT_BY_TOOLS)


def data_files(package: str) -> dict[str, str]:
    """Return the SHA-256 of the files of the owner's packages that are not Python."""
    return {name: checksum_of(path) for name, path in own_files(package).items() if path.suffix != ".py"}


def weights_fingerprint(package: str, locked: str) -> str:
    """Return what stands for the weights of the lock, whose digest is given, and for the files beside model.py."""
    beside = data_files(package)
    return hashlib.sha256(json.dumps([locked, beside]).encode()).hexdigest() if beside else locked


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file, "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def folder_of(package: str) -> Path:
    """Return the folder of the owner's package. Raises BadConfiguration when there is none."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise BadConfiguration(f"there is no package {package} here: call it where src/ is on PYTHONPATH")
    return Path(found.origin).resolve().parent


@dataclass(frozen=True)
class Plan:
    """What decides which rows are in which part and what is computed from them."""

    files: list[InputFile]
    columns: Columns
    limits: Limits
    shards: int
    on_error: str
    result: pa.Schema
    code: str
    parameters: Any = None
    weights: str = ""

    @cached_property
    def units(self) -> list[Unit]:
        """Return the files as they make parts: small ones together, where there are many."""
        return units_of(self.files, self.columns, self.limits, self.shards)

    def is_shared(self, file_index: int) -> bool:
        """Tell whether small files share the parts with this number of a file."""
        return len(self.units[file_index]) > 1

    def wants(self, shard: Shard, file_index: int, part: int) -> bool:
        """Tell whether a shard does a part."""
        return shard.wants(file_index, part, self.is_shared(file_index))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is written beside the output."""
        counts = list(map(len, self.units))
        return {
            "shards": self.shards,
            "part_rows": self.limits.rows,
            "part_bytes": self.limits.size,
            "max_row_bytes": self.limits.row_size,
            "column": self.columns.text,
            **self._typed(),
            "keep": _types(self.columns.kept),
            "result": _types(self.result),
            "on_error": self.on_error,
            "code": self.code,
            **({"weights": self.weights} if self.weights else {}),
            **({"together": counts} if max(counts, default=1) > 1 else {}),
            "files": [file.identity() for file in self.files],
        }

    def _typed(self) -> dict[str, Any]:
        """Return what the plan of a model has that takes other inputs than texts, or parameters."""
        typed = self.columns.typed
        found: dict[str, Any] = {}
        if typed:
            found["columns"] = [list(pair) for pair in typed.fields]
        if typed and typed.files:
            found |= {"files_of": sorted(typed.files), "root": typed.root}
        return found if self.parameters is None else found | {"parameters": self.parameters}

    def settle(self, output: Output, same_input: bool = False) -> None:
        """Write the plan, or compare it with the one that is there. Raises BadConfiguration when they differ.

        same_input: files of the same name and size are the same, whatever their times.
        """
        own = self.as_dict()
        if output.create(NAME, to_json(own)):
            return
        there = _parsed(output.read(NAME) or b"{}")
        other_mode = there | {"on_error": self.on_error}
        was_strict = there.get("on_error") == "fail" != self.on_error and not output.is_complete
        if was_strict and not _changes(other_mode, own, same_input):
            # What is done had no bad row: the rest may have another mode.
            with contextlib.suppress(FinishedElsewhere):
                output.write(NAME, to_json(other_mode))
            return
        changes = _changes(there, own, same_input)
        if changes:
            raise BadConfiguration(
                f"this output was begun otherwise: {'; '.join(changes)}. "
                "Continue as it was begun, or use another --output (or delete this one)"
            )


def _shown(value: Any) -> Any:
    return "not set" if value is None else value


def _other_reading(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return which options read the same files in another way."""
    both = [(before[name], after[name]) for name in before.keys() & after.keys()]
    found = [
        f"--{key} was {_shown(was.get(key))}, now {_shown(now.get(key))}"
        for key in _READING[:-1]
        for was, now in both
        if was.get(key) != now.get(key)
    ]
    limited = any(was.get("rows") != now.get("rows") for was, now in both)
    # In the order in which they were found, each once.
    return [*dict.fromkeys(found), *(["--limit is another one"] if limited else [])]


def _is_same(before: dict[str, Any], now: dict[str, Any], same_input: bool) -> bool:
    passing = {*_READING, "modified"} if same_input else {*_READING}
    return all(before.get(key) == now.get(key) for key in (before.keys() | now.keys()) - passing)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = dict(json.loads(content))
        if not all(isinstance(file["name"], str) for file in found.get("files", [])):
            raise ValueError("a file without a name")
        return found
    except (ValueError, TypeError, KeyError):
        raise BadConfiguration(f"{NAME} of this output is not valid JSON: use another --output, or delete it") from None


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _changes(there: dict[str, Any], own: dict[str, Any], same_input: bool) -> list[str]:
    """Return in a few words what differs between the plan that is there and the one of this start."""
    changes = [
        _NO_OPTIONS.get(key) or f"--{key.replace('_', '-')} was {_shown(there.get(key))}, now {_shown(own.get(key))}"
        for key in own | there
        if key not in ("files", "together") and there.get(key) != own.get(key)
    ]
    before = {file["name"]: file for file in there.get("files", [])}
    after = {file["name"]: file for file in own["files"]}
    changes += _other_reading(before, after)
    both = before.keys() & after.keys()
    changed = {name for name in both if not _is_same(before[name], after[name], same_input)}
    for word, names in [
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
        ("changed", changed),
    ]:
        if names:
            some = ", ".join(sorted(names)[:3])
            changes.append(f"{len(names)} input files {word}: {some}{' ...' if len(names) > 3 else ''}")
    if changed and not same_input and changes == changes[-1:]:
        changes[-1] += " (--same-input accepts a copy of the same files)"
    return changes
