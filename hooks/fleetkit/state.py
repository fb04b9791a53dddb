"""What the fleet tool remembers: one JSON file a child, so that a stopped run goes on where it was."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetkit.children import FleetError, shown

Record = dict[str, Any]
LOCKS = "locks"  # how the name of a renewal of locks begins; no version begins so
ADOPTIONS = "adopt-"  # how the name of adoptions begins, before the version that is followed then


class State:
    """The folder of one fleet: children/NAME.json, patches/, logs/, bundles/, clones/, plan.json.

    All but the clones, which are large and can be made again, is what an apply on another machine needs.
    """

    def __init__(self, folder: Path, clones: Path | None = None) -> None:
        self.folder = folder.resolve()
        for name in ("children", "patches", "logs", "bundles", "cache"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.clones = clones or self.folder / "clones"
        self.clones.mkdir(exist_ok=True)

    def locks(self) -> State:
        """Return the state of the renewals of locks: records and a plan of their own, on the same clones."""
        return State(self.folder / "locks", self.clones)

    def adoptions(self) -> State:
        """Return the state of repositories that are to join: records and a plan of their own, on the same clones."""
        return State(self.folder / "adoptions", self.clones)

    def read(self, name: str) -> Record:
        """Return what is known of a child; nothing at first."""
        return self._read(self.folder / "children" / f"{name}.json")

    def write(self, name: str, record: Record) -> None:
        """Remember what is known of a child, whole or not at all."""
        self._write(self.folder / "children" / f"{name}.json", record)

    def plan(self) -> Record:
        """Return the last plan: its version and whether it is finished."""
        return self._read(self.folder / "plan.json")

    def write_plan(self, record: Record) -> None:
        """Remember the plan."""
        self._write(self.folder / "plan.json", record)

    def planned(self, name: str) -> str:
        """Return the commit that the plan made for a child, by the plan itself; nothing where it made none."""
        return str(self.plan().get("commits", {}).get(name, ""))

    def clone(self, name: str) -> Path:
        """Return where the clone of a child is kept."""
        return self.clones / name

    def bundle(self, name: str) -> Path:
        """Return where the commit that the plan made for a child is kept, without the child's own history."""
        return self.folder / "bundles" / f"{name}.bundle"

    def _read(self, place: Path) -> Record:
        """Return a record; nothing where there is none that is whole, since hosts know what was done."""
        try:
            record = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def _write(self, place: Path, record: Record) -> None:
        with tempfile.NamedTemporaryFile("w", dir=place.parent, suffix=".new", delete=False, encoding="utf-8") as file:
            json.dump(shown(record), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(place)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one run at a time work on this folder. Raises FleetError for a second one."""
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FleetError(f"another run works on {self.folder}: wait for it, or take another --state") from error
            yield


def digest(plan: Record) -> str:
    """Return what names a plan: its version and the commit of every child."""
    text = json.dumps([plan.get("to"), plan.get("commits", {})], sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
