"""The catalogue of findings: one entry per stable code; every module here that has ``CODES`` belongs to it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import NamedTuple, Union

Fix = Union[str, dict[str, str]]
OF_A_LINUX_HOST = re.compile(r"dmesg|lspci|lsmod|modinfo|systemctl|ausearch|nvidia-container|ldconfig -p")
OF_WINDOWS = (
    "`nvidia-smi.exe` in Windows: works there, it is WSL's side (`wsl --update`, `wsl --shutdown`); fails there too, "
    "it is the driver in Windows"
)


class Code(NamedTuple):
    """What a finding means, written with keywords.

    ``fix`` is one line, or one line per platform with ``*`` as the fallback. Where two causes are possible, ``cause``
    names both, the likelier first, and ``apart`` is what tells them apart.
    """

    id: str
    layer: str
    title: str
    symptom: str
    cause: str
    detect: str
    fix: Fix
    source: str
    severity: str = "error"
    apart: Fix = ""

    def fix_for(self, platforms: list[str]) -> str:
        """Return the fix line for the first name in ``platforms`` (most specific first) that has one."""
        return _chosen(self.fix, platforms)

    def apart_for(self, platforms: list[str]) -> str:
        """Return what tells the causes apart on the platform, "" where there is one cause."""
        line = _chosen(self.apart, platforms)
        # WSL's host is Windows, which has none of these.
        return OF_WINDOWS if "wsl" in platforms and OF_A_LINUX_HOST.search(line) else line


def _chosen(lines: Fix, platforms: list[str]) -> str:
    if isinstance(lines, str):
        return lines
    return next((lines[name] for name in [*platforms, "*"] if name in lines), "")


def catalogue() -> dict[str, Code]:
    """Return every code by its identifier, in ascending order.

    Raises ValueError when two entries claim one identifier.
    """
    found: dict[str, Code] = {}
    for module in pkgutil.iter_modules(__path__):
        for entry in getattr(importlib.import_module(f"{__name__}.{module.name}"), "CODES", []):
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
