"""Memory of a model by the size of its batches, which GPUs have room for it, and what a million inputs cost."""

import re
import resource
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import linear_regression
from typing import Any

from . import device

GIB = 1 << 30
# Of a GPU's memory: the rest is its context, the libraries' own and what the allocator cannot use.
USABLE = 0.9
FAR = 16  # times the largest batch that was measured: nothing is said of larger ones
UNPROVEN = "measured without an NVIDIA GPU: run it on one to see GPU memory and prices"


@dataclass(frozen=True)
class Measured:
    """Inputs per second of a batch size in the model, and the highest memory in bytes (0: not known)."""

    size: int
    rate: float
    memory: int


def peak(chosen: str) -> int:
    """Return the highest memory in bytes: of the GPU since `device.reset_peak`, else of the process since its start."""
    memory = device.memory(chosen)
    kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return memory.peak if memory else kept * (1 if sys.platform == "darwin" else 1024)


def gpus_in(text: str) -> list[tuple[str, float]]:
    """Return names and GiB of a text such as "T4=16,L4=24", the smallest first. Raises ArgumentTypeError."""
    pairs = [part.rpartition("=") for part in text.split(",") if part]
    if not all(name and re.fullmatch(r"\d+(\.\d+)?", gib) for name, _, gib in pairs):
        raise ArgumentTypeError(f"expected GPUs and their GiB, for example T4=16,L4=24; got {text!r}")
    return sorted(((name, float(gib)) for name, _, gib in pairs), key=lambda pair: pair[1])


def rooms(measured: Sequence[Measured], gpus: Sequence[tuple[str, float]], before: int = 0) -> list[dict[str, Any]]:
    """Return name, GiB and the largest batch for each GPU (0: not even one input), by a line through what was measured.

    before: bytes that the process held before the model was loaded, which a GPU does not have to hold. "more": larger
    ones may fit too, but they are so far beyond what was measured that nothing is said of them.
    """
    known = [one for one in measured if one.memory]
    if not known:
        return []
    sizes, memory = [one.size for one in known], [max(0, one.memory - before) for one in known]
    slope, base = linear_regression(sizes, memory) if len(set(sizes)) > 1 else (0.0, float(max(memory)))
    # Noise can make a line fall, and small batches can lie on one that begins below nothing.
    slope, base, seen = max(slope, 0.0), max(base, 0.0), FAR * max(sizes)
    left = [(name, gib, gib * GIB * USABLE - base) for name, gib in gpus]
    most = [(name, gib, 0 if free <= 0 else int(free / slope) if slope else seen) for name, gib, free in left]
    return [{"name": name, "gib": gib, "batch": min(most, seen), "more": most >= seen} for name, gib, most in most]


def report(
    measured: Sequence[Measured], gpus: Sequence[tuple[str, float]], chosen: str, price: float = 0.0, before: int = 0
) -> dict[str, Any]:
    """Return what the table says, for a JSON file. price: of an hour of the GPU; 0 says nothing of costs.

    Speed and memory of a CPU say nothing about a GPU.
    """
    fastest = max(measured, key=lambda one: one.rate)
    is_gpu = chosen == "cuda"
    found = rooms(measured, gpus, before) if is_gpu else []
    return {
        "device": chosen,
        "batches": [asdict(one) for one in measured],
        "gpus": found,
        "smallest_gpu": next((one["name"] for one in found if one["batch"] >= fastest.size), None),
        "best_batch": fastest.size,
        "million_inputs": price / 3600 / fastest.rate * 1e6 if price and is_gpu else None,
        "note": "" if is_gpu else UNPROVEN,
    }


def table(told: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = ["batch size  inputs/s    peak memory"]
    lines += [f"{b['size']:10} {b['rate']:9,.0f} {b['memory'] / 2**20:10,.0f} MiB" for b in told["batches"]]
    if told["gpus"]:
        lines += ["", f"{'GPU':20} {'GiB':>5}  largest batch"]
        rooms = [(g, f"{g['batch']} or more" if g["more"] else g["batch"] or "does not fit") for g in told["gpus"]]
        lines += [f"{g['name']:20} {g['gib']:5g}  {batch}" for g, batch in rooms]
        fitting = told["smallest_gpu"] or "none of these"
        lines += ["", f"the fastest batch ({told['best_batch']}) fits into: {fitting}"]
    if told["million_inputs"] is not None:
        lines += [f"a million inputs cost {told['million_inputs']:.2g}"]
    return "\n".join([*lines, *([told["note"]] if told["note"] else [])])
