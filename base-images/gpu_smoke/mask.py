"""CUDA_VISIBLE_DEVICES: what it names, and whether that exists (CUDA programming guide, environment variables)."""

from __future__ import annotations

import re
from typing import NamedTuple


class Mask(NamedTuple):
    """``entries`` are the names before the first one that ends the list; ``hides_all`` when none is left."""

    value: str | None
    entries: list[str]
    hides_all: bool
    bad: str = ""
    problem: str = ""

    @property
    def mig(self) -> list[str]:
        """Entries that name MIG instances."""
        return [entry for entry in self.entries if entry.startswith("MIG-")]


def parse(value: str | None, gpus: list[str] | None = None) -> Mask:
    """Read the variable; ``gpus`` are the UUIDs of all GPUs in order when NVML could list them.

    CUDA stops at the first entry that is invalid: what stands before stays visible. -1 ends the list on purpose.
    """
    if value is None:
        return Mask(None, [], False)
    entries: list[str] = []
    bad = problem = ""
    for raw in value.split(","):
        entry = raw.strip()
        if entry in ("", "-1") or entry.lower() in ("nodevfiles", "none", "void"):
            break
        problem = (
            "does not exist" if not _exists(entry, gpus) else "is named twice" if _again(entry, entries, gpus) else ""
        )
        if problem:
            bad = entry
            break
        entries.append(entry)
    return Mask(value, entries, not entries, bad, problem)


def _again(entry: str, entries: list[str], gpus: list[str] | None) -> bool:
    """Say whether an entry names a GPU for the second time; numbers and UUIDs may count in different orders."""
    same = next(
        (uuid for uuid in gpus or [] if entry.startswith("GPU-") and uuid.lower().startswith(entry.lower())), ""
    )
    named = [one for one in entries if one.startswith("GPU-") and same.lower().startswith(one.lower())]
    return entry in entries or bool(same and named)


def _exists(entry: str, gpus: list[str] | None) -> bool:
    if re.fullmatch(r"\d{1,4}", entry):
        return gpus is None or int(entry) < len(gpus)
    if entry.startswith("MIG-"):
        # NVML lists the instances per GPU; without that list the driver's own answer decides.
        return True
    if re.fullmatch(r"GPU-[0-9a-fA-F-]+", entry):
        return gpus is None or sum(uuid.lower().startswith(entry.lower()) for uuid in gpus) == 1
    return False
