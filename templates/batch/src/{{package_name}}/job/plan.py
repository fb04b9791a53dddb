"""The plan beside the output: what a restart must not change. A restart with another one is refused."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from .exits import BadConfiguration
from .inputs import InputFile
from .parts import Columns, Limits
from .store import Store

NAME = "_plan.json"


def code_fingerprint() -> str:
    """Return the SHA-256 of all Python files of the package."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix()):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True)
class Plan:
    """What decides which rows are in which part and what is computed from them."""

    files: list[InputFile]
    columns: Columns
    limits: Limits
    shards: int
    on_error: str
    result: pa.Schema

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as it is written beside the output."""
        return {
            "shards": self.shards,
            "part_rows": self.limits.rows,
            "part_bytes": self.limits.size,
            "max_row_bytes": self.limits.row_size,
            "column": self.columns.text,
            "keep": _types(self.columns.kept),
            "result": _types(self.result),
            "on_error": self.on_error,
            "code": code_fingerprint(),
            "files": [file.identity() for file in self.files],
        }

    def settle(self, store: Store) -> None:
        """Write the plan, or compare it with the one that is there. Raises BadConfiguration when they differ."""
        own = self.as_dict()
        if store.create(NAME, to_json(own)):
            return
        there = json.loads(store.read(NAME) or b"{}")
        changes = _changes(there, own)
        if changes:
            raise BadConfiguration(
                f"this output was begun otherwise: {'; '.join(changes)}. "
                "Go on as it was begun, or take another --output (or delete this one)"
            )


def to_json(value: Any) -> bytes:
    """Return the value as JSON for people to read, the same bytes for the same value."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _changes(there: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """Say in a few words what differs between the plan that is there and the one of this start."""
    changes = [
        f"--{key.replace('_', '-')} was {there.get(key)}, now {own[key]}" if key != "code" else "the code has changed"
        for key in own
        if key != "files" and there.get(key) != own[key]
    ]
    before = {file["name"]: file for file in there.get("files", [])}
    after = {file["name"]: file for file in own["files"]}
    for word, names in [
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
        ("changed", {name for name in before.keys() & after.keys() if before[name] != after[name]}),
    ]:
        if names:
            some = ", ".join(sorted(names)[:3])
            changes.append(f"{len(names)} input files {word}: {some}{' ...' if len(names) > 3 else ''}")
    return changes
