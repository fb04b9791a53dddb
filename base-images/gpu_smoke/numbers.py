"""Numbers of CUDA, NVML, the kernel and others: names, meanings and findings, from findings/numbers.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from typing import Any, NamedTuple

from .findings import text

SPELLING = {"cuda": "CUDA", "nvml": "NVML"}
# nvmlDeviceGpuRecoveryAction_t: its name, and what to do.
RECOVERY = {
    1: ("GPU reset", "stop the GPU's users, then `nvidia-smi --gpu-reset`"),
    2: ("node reboot", "reboot the node"),
    3: ("drain P2P", "stop every program that uses NVLink or peer-to-peer on the node, then ask again"),
    4: ("drain and reset", "let running work end and give the GPU no new work, then `nvidia-smi --gpu-reset`"),
    5: ("recover IMEX domain", "restart nvidia-imex on the nodes of the NVLink domain"),
    6: ("bus reset", "stop the GPU's users and reset its PCI bus, or reboot the node"),
    7: ("system reboot", "switch the whole machine off and on again"),
}
# nvmlClocksEventReasons; those of the hardware are a fault of cooling or power.
REASONS = {0x2: "clocks set by an application", 0x4: "power limit", 0x8: "hardware slowdown",
           0x10: "synchronised group", 0x20: "software thermal limit", 0x40: "hardware thermal limit",
           0x80: "power brake", 0x100: "clocks of the display"}  # fmt: skip


class Number(NamedTuple):
    """A number of one source. ``findings`` are those that explain it, the likeliest first."""

    number: int
    names: tuple[str, ...]
    means: str = ""
    findings: tuple[str, ...] = ()


@functools.cache
def tables() -> dict[str, dict[int, Number]]:
    """Return the numbers of each source by the word that may stand before one: ``nvml:15``, ``xid:79``."""
    return {source: {int(key): _number(int(key), entry) for key, entry in rows.items()}
            for source, rows in tomllib.loads(text("numbers")).items()}  # fmt: skip


def _number(number: int, entry: dict[str, Any]) -> Number:
    return Number(number, tuple(entry["names"].split()), entry.get("means", ""), tuple(entry.get("findings", ())))


def named(source: str, number: int, told: str = "") -> str:
    """Return ``100 (CUDA_ERROR_NO_DEVICE)``; ``told`` is the library's own name for a number without an entry."""
    entry = tables()[source].get(number)
    name = entry.names[0] if entry else told
    return f"{number} ({name})" if name else str(number)


def meaning(source: str, number: int, told: str = "") -> str:
    """Return what a number means, as far as its entry or the library's own name says."""
    entry = tables()[source].get(number)
    return (entry.means or entry.names[0]) if entry else told or "no number that gpu-smoke knows"


def node_finding(error: str) -> str:
    """Return the finding of a device node whose open gives an error (``EPERM``)."""
    return next((entry.findings[0] for entry in tables()["errno"].values() if error in entry.names), "GS113")


def recovery_text(action: int) -> str:
    """Return the recovery that NVML asks for as evidence, "" for none."""
    return f"NVML requests: {RECOVERY.get(action, ('an unknown recovery', ''))[0]} ({action})" if action else ""


def clock_reasons(reasons: int) -> str:
    """Return what lowers the clocks, in words (nvmlClocksEventReasons)."""
    given = [name for bit, name in REASONS.items() if reasons & bit]
    return f"{', '.join(given) or 'unknown'} ({reasons:#x})"


def find(asked: str) -> list[tuple[str, Number]]:
    """Return the entries of a name in any spelling, or of a number; a source may stand before it, as in ``xid:79``.

    A bare number is one of CUDA or NVML, else an Xid.
    """
    wanted = re.sub(r"^(\w+)[ :-]+(?=\d)", r"\1:", asked.strip().lower())
    source, _, number = wanted.rpartition(":")
    found = [
        (SPELLING.get(label, label), entry)
        for label, rows in tables().items()
        for entry in rows.values()
        if wanted in {name.lower() for name in entry.names}
        or (number == str(entry.number) and source == label)
        or (wanted == str(entry.number) and label in SPELLING)
    ]
    return found or [("xid", entry) for key, entry in tables()["xid"].items() if wanted == str(key)]
