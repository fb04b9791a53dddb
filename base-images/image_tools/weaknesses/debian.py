"""Known weaknesses of Debian's packages, from the tracker's JSON (security-tracker.debian.org/tracker/data/json)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .osv import Weakness
from .versions import debian

# The tracker's scale ends with `high`; `nodsa` means that Debian's team saw no need of an advisory of its own.
URGENCIES = {"high": "critical", "medium": "medium", "low": "low", "unimportant": "unimportant"}


@dataclass
class Tracker:
    """What the tracker says: source package -> name of the weakness -> record."""

    packages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, told: dict[str, Any]) -> bool:
        """Take the tracker's JSON in; tell whether it was that."""
        records = [record for of in told.values() if isinstance(of, dict) for record in of.values()]
        if not records or not all(isinstance(record, dict) and "releases" in record for record in records):
            return False
        for package, known in told.items():
            self.packages.setdefault(package, {}).update(known)
        return True

    def of(self, source: str, version: str, release: str) -> Iterator[Weakness]:
        """Yield what is known of one version of a source package in a release such as trixie."""
        now = debian(version)
        for name, record in self.packages.get(source, {}).items():
            state = record["releases"].get(release)
            if state is None:
                continue
            fixed = str(state.get("fixed_version") or "") if state.get("status") == "resolved" else ""
            end = debian(fixed)
            if fixed and now is not None and end is not None and now >= end:
                continue
            urgency = str(state.get("urgency") or "").strip("*")
            word = URGENCIES.get(urgency, "low" if "nodsa" in state else "")
            yield Weakness((name,), source, version, fixed, str(record.get("description") or "")[:200], word)
