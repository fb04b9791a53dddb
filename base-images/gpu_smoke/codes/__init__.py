"""The catalogue of findings: one entry per stable code."""

from __future__ import annotations

from typing import NamedTuple, Union

Fix = Union[str, dict[str, str]]


class Code(NamedTuple):
    """What a finding means. ``fix`` is one line, or one line per platform with ``*`` as the fallback."""

    id: str
    layer: str
    severity: str
    title: str
    symptom: str
    cause: str
    detect: str
    fix: Fix
    source: str

    def fix_for(self, platforms: list[str]) -> str:
        """Return the fix line for the first name in ``platforms`` (most specific first) that has one."""
        if isinstance(self.fix, str):
            return self.fix
        return next((self.fix[name] for name in [*platforms, "*"] if name in self.fix), "")


def catalogue() -> dict[str, Code]:
    """Return every code by its identifier, in ascending order.

    Raises ValueError when two entries claim one identifier.
    """
    from . import driver, libraries, start, workload

    found: dict[str, Code] = {}
    for entry in [*driver.CODES, *start.CODES, *libraries.CODES, *workload.CODES]:
        if entry.id in found:
            raise ValueError(f"two findings claim the code {entry.id}")
        found[entry.id] = entry
    return dict(sorted(found.items()))


_BY_ID: dict[str, Code] = {}


def lookup(code: str) -> Code | None:
    """Return the entry of ``code``, or None when there is no such code."""
    if not _BY_ID:
        _BY_ID.update(catalogue())
    return _BY_ID.get(code)
