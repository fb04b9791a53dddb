"""The plan beside the output: units of files, and what a restart must not change, which is refused otherwise."""

import contextlib
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
from pydantic_core import to_jsonable_python

from .columns import Columns
from .exits import BadConfiguration
from .inputs import PLAN as NAME
from .output import FinishedElsewhere, Output, to_json
from .parts import COMPRESSED, InputFile, Limits, Unit

# With fewer files, each of them is a unit.
FEW_FILES = 64
# Units for each shard, so that there is work for all of them.
LEAST_UNITS = 8
# Small files are one unit up to these bytes for each row that a part may have: hardly any row is shorter.
BYTES_OF_A_ROW = 32
# How many times larger the content of a compressed file may be.
COMPRESSION = 10
_NO_OPTIONS = {"code": "the code, or a file next to it, has changed", "weights": "the weights have changed"}
# What tools leave beside code.
_LEFT_BY_TOOLS = ("__pycache__", ".egg-info", ".dist-info", ".pyc")


def code_fingerprint(package: str) -> str:
    """Return the SHA-256 of all files of the owner's packages, and of the Python files of the runtime."""
    runtime = _files_below(Path(__file__).resolve().parent.parent)
    files = [*own_files(package).items(), *(one for one in runtime.items() if one[1].suffix == ".py")]
    return hashlib.sha256("".join(f"{name}\0{checksum_of(path)}\0" for name, path in files).encode()).hexdigest()


def own_files(package: str) -> dict[str, Path]:
    """Return the files of the owner's package by their paths, and those of the packages beside it in src."""
    folder = folder_of(package)
    return _files_below(folder.parent if folder.parent.name == "src" else folder)


def _files_below(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths in it, in order, without what tools leave there."""
    found = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): path
        for name, path in found.items()
        if not any(part.startswith(".") or part.endswith(_LEFT_BY_TOOLS) for part in name.parts)
    }


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_of(package: str) -> Path:
    """Return the folder of the owner's package. Raises BadConfiguration when there is none."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise BadConfiguration(f"there is no package {package} here: call it where src/ is on PYTHONPATH")
    return Path(found.origin).resolve().parent


def units_of(files: Sequence[InputFile], columns: Columns, limits: Limits, shards: int) -> list[Unit]:
    """Return the files in their order, small ones that follow one another together. The same for the same plan."""
    if len(files) < FEW_FILES:
        return [(file,) for file in files]
    weights = [_weight(file) for file in files]
    room = min(limits.size, limits.rows * BYTES_OF_A_ROW, sum(weights) // (shards * LEAST_UNITS))
    units: list[list[InputFile]] = []
    left = 0
    for file, weight in zip(files, weights, strict=True):
        if weight <= left and _fit_together(units[-1][-1], file, columns):
            units[-1].append(file)
            left -= weight
        else:
            units.append([file])
            left = room - weight
    return list(map(tuple, units))


def _weight(file: InputFile) -> int:
    is_compressed = PurePosixPath(file.path.lower()).suffix in COMPRESSED
    return max(1, file.size) * (COMPRESSION if is_compressed else 1)


def _fit_together(one: InputFile, other: InputFile, columns: Columns) -> bool:
    """Tell whether two files are read alike and their rows mean the same to the model."""
    if one.format != other.format or one.most is not None or other.most is not None:
        return False
    # A column that one of them lacks has its default there.
    return one.format != "parquet" or columns.names == columns.required


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
    limit: int | None = None

    @cached_property
    def units(self) -> list[Unit]:
        """Return the files as they make parts: small ones together, where there are many."""
        return units_of(self.files, self.columns, self.limits, self.shards)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is written beside the output."""
        optional = {
            **asdict(self.files[0].dialect),
            "columns": [(field.key, field.column) for field in self.columns.fields],
            "parameters": to_jsonable_python(self.parameters),
            "weights": self.weights,
            "limit": self.limit,
        }
        found = {
            "shards": self.shards,
            "part_rows": self.limits.rows,
            "part_bytes": self.limits.size,
            "max_row_bytes": self.limits.row_size,
            "column": self.columns.text,
            "keep": {field.name: str(field.type) for field in self.columns.kept},
            "result": {field.name: str(field.type) for field in self.result},
            "on_error": self.on_error,
            "code": self.code,
            **{key: value for key, value in optional.items() if value},
            "units": len(self.units),
            "files": [file.identity() for file in self.files],
        }
        return dict(json.loads(to_json(found)))

    def settle(self, output: Output, same_input: bool = False) -> None:
        """Write the plan, or compare it with the one that is there. Raises BadConfiguration when they differ.

        same_input: files of the same name and size are the same, whatever their times.
        """
        own = self.as_dict()
        if (content := output.read(NAME)) is None:
            return output.write(NAME, to_json(own))
        there = json.loads(content)
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


def _changes(there: dict[str, Any], own: dict[str, Any], same_input: bool) -> list[str]:
    """Return in a few words what differs between the plan that is there and the one of this start."""
    changes = [
        _NO_OPTIONS.get(key)
        or f"--{key.replace('_', '-')} was {there.get(key, 'not set')}, now {own.get(key, 'not set')}"
        for key in own | there
        if key not in ("files", "units") and there.get(key) != own.get(key)
    ]
    passing = {"modified"} if same_input else set()
    before, after = (
        {file["name"]: {key: value for key, value in file.items() if key not in passing} for file in plan["files"]}
        for plan in (there, own)
    )
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    for word, names in [
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
        ("changed", changed),
    ]:
        if names:
            some = ", ".join(sorted(names)[:3])
            changes.append(f"{len(names)} input files {word}: {some}{' ...' if len(names) > 3 else ''}")
    if changed and not same_input and len(changes) == 1:
        changes[-1] += " (--ignore-mtime accepts a copy of the same files)"
    return changes
