"""The texts of the findings: one TOML file for each layer, one table for each code. README.md says how to edit them."""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from typing import Any, NamedTuple

LAYERS = (
    "any", "platform", "device-nodes", "kernel-module", "user-driver", "driver-init", "nvml", "runtime",
    "compatibility", "kernels", "memory", "toolkit", "framework", "collective", "model",
)  # fmt: skip
Lines = dict[str, str]
OF_A_LINUX_HOST = re.compile(r"dmesg|lspci|lsmod|modinfo|systemctl|ausearch|nvidia-container|ldconfig -p")
OF_WINDOWS = (
    "`nvidia-smi.exe` in Windows: works there, it is WSL's side (`wsl --update`, `wsl --shutdown`); fails there too, "
    "it is the driver in Windows"
)


class Code(NamedTuple):
    """What a finding means. ``fix`` and ``tell_apart`` have a line for each platform, and ``anywhere``.

    ``action`` is what to do where NVML names no recovery of its own: ``{action}`` in a fix line.
    Where two causes are possible, ``cause`` names both, the likelier first, and ``tell_apart`` says how to find out.
    """

    id: str
    layer: str
    title: str
    symptom: str
    cause: str
    detected_by: str
    fix: Lines
    source: str
    tell_apart: Lines
    severity: str = "error"
    action: str = ""

    def fix_for(self, platforms: list[str]) -> str:
        """Return the fix line for the first name in ``platforms`` (most specific first) that has one."""
        return _line_for(self.fix, platforms)

    def tell_apart_for(self, platforms: list[str]) -> str:
        """Return what tells the causes apart on the platform, "" where there is one cause."""
        line = _line_for(self.tell_apart, platforms)
        # WSL's host is Windows, which has none of these.
        return OF_WINDOWS if "wsl" in platforms and OF_A_LINUX_HOST.search(line) else line


def _line_for(lines: Lines, platforms: list[str]) -> str:
    return next((lines[name] for name in [*platforms, "anywhere"] if name in lines), "")


@functools.cache
def catalogue() -> dict[str, Code]:
    """Return every code by its identifier, in ascending order. Raises ValueError when two entries claim one."""
    found: dict[str, Code] = {}
    for layer in LAYERS:
        for code, entry in _of_layer(layer).items():
            if code in found:
                raise ValueError(f"two findings claim the code {code}")
            found[code] = entry
    return dict(sorted(found.items()))


def lookup(code: str) -> Code | None:
    """Return the entry of ``code``, or None; only the file that holds it is parsed."""
    layer = next((layer for layer in LAYERS if f"\n[{code}]\n" in text(layer)), "")
    return _of_layer(layer)[code] if layer else None


@functools.cache
def text(name: str) -> str:
    """Return a TOML file of this folder; read by the loader, which also reads from a file made by zipapp."""
    data = pkgutil.get_data(__name__, f"{name}.toml")
    if data is None:
        raise FileNotFoundError(f"{name}.toml is missing next to {__file__}")
    return data.decode("utf-8")


@functools.cache
def _of_layer(layer: str) -> dict[str, Code]:
    return {code: _code(code, layer, entry) for code, entry in tomllib.loads(text(layer)).items()}


def _code(code: str, layer: str, entry: dict[str, Any]) -> Code:
    fix, tell_apart = _lines(entry.pop("fix")), _lines(entry.pop("tell_apart", {}))
    return Code(id=code, layer=layer, fix=fix, tell_apart=tell_apart, **entry)


def _lines(given: str | Lines) -> Lines:
    """Return the lines by platform; a shared one, such as ``host``, is filled with its work (see fix_lines.toml)."""
    if isinstance(given, str):
        return {"anywhere": given}
    shared, found, own = tomllib.loads(text("fix_lines")), {}, dict(given)
    other = own.pop("driver_or", "")
    for name in [name for name in own if name in shared]:
        work = own.pop(name)
        words = {"{work}": work, "{Work}": work[:1].upper() + work[1:], "{or}": other}
        tables = [*(shared[part] for part in shared[name].get("include", ())), shared[name]]
        for platform, line in ((key, line) for table in tables for key, line in table.items() if key != "include"):
            for blank, word in words.items():
                line = line.replace(blank, word)
            found[platform] = line
    if "anywhere" in own:
        found.pop("bare", None)  # the finding's own line is for the bare machine too
    return {**found, **own}
