"""Memory of a model by the size of its batches, which GPUs have room for it, and what a million inputs cost."""

import io
import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Room:
    """A GPU, or a slice of one, with its memory in GiB, and the largest batch for it (0: not even one input).

    more: larger ones may fit too, but they are so far beyond what was measured that nothing is said of them.
    """

    name: str
    gib: float
    batch: int
    more: bool = False


def reset_peak(chosen: str) -> None:
    """Forget the highest memory so far: the GPU's, or on Linux the process's own."""
    if chosen != "cpu":
        device.reset_peak(chosen)
        return
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def peak(chosen: str) -> int:
    """Return the highest memory in bytes since `reset_peak`; 0 where it is not known."""
    memory = device.memory(chosen)
    if memory:
        return memory.peak
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = (line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return next((int(words[1]) * 1024 for words in lines), 0)


def gpus_in(text: str) -> list[tuple[str, float]]:
    """Return names and GiB of a text such as "T4=16,L4=24", the smallest first. Raises ArgumentTypeError."""
    pairs = [part.rpartition("=") for part in text.split(",") if part]
    if not all(name and re.fullmatch(r"\d+(\.\d+)?", gib) for name, _, gib in pairs):
        raise ArgumentTypeError(f"{text!r} should be such as T4=16,L4=24")
    return sorted(((name, float(gib)) for name, _, gib in pairs), key=lambda pair: pair[1])


def rooms(measured: Sequence[Measured], gpus: Sequence[tuple[str, float]], before: int = 0) -> list[Room]:
    """Return the largest batch for each GPU, by a line through what was measured.

    before: bytes that the process held before the model was loaded, which a GPU does not have to hold.
    """
    known = [one for one in measured if one.memory]
    if not known:
        return []
    sizes, memory = [one.size for one in known], [max(0, one.memory - before) for one in known]
    slope, base = linear_regression(sizes, memory) if len(set(sizes)) > 1 else (0.0, float(max(memory)))
    # Noise can make a line fall, and small batches can lie on one that begins below nothing.
    slope, base = max(slope, 0.0), max(base, 0.0)
    found = []
    for name, gib in gpus:
        left = gib * GIB * USABLE - base
        seen = FAR * max(sizes)
        most = 0 if left <= 0 else int(left / slope) if slope else seen
        found.append(Room(name, gib, min(most, seen), most >= seen))
    return found


def report(
    measured: Sequence[Measured], gpus: Sequence[tuple[str, float]], chosen: str, price: float = 0.0, before: int = 0
) -> dict[str, Any]:
    """Return what the table says, for a JSON file. price: of an hour of the GPU; 0 says nothing of costs."""
    fastest = max(measured, key=lambda one: one.rate)
    is_gpu = chosen == "cuda"
    # Speed and memory of a CPU say nothing about a GPU.
    found = rooms(measured, gpus, before) if is_gpu else []
    return {
        "device": chosen,
        "batches": [asdict(one) for one in measured],
        "gpus": [asdict(one) for one in found],
        "smallest_gpu": next((one.name for one in found if one.batch >= fastest.size), None),
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
        cost = told["million_inputs"]
        lines += [f"a million inputs cost {cost:.2f}" if cost >= 0.1 else f"a million inputs cost {cost:.2g}"]
    return "\n".join([*lines, *([told["note"]] if told["note"] else [])])


def chart(seconds: dict[str, float], measured: Sequence[Measured]) -> bytes:
    """Return a PNG: the shares of the time, and rate and memory over the batch size. ImportError: no matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    short = max(seconds.values(), default=0.0) < 1
    left.barh(list(seconds)[::-1], [value * (1000 if short else 1) for value in seconds.values()][::-1])
    left.set(xlabel="milliseconds" if short else "seconds", title="where the time goes")
    sizes = [one.size for one in measured]
    right.plot(sizes, [one.rate for one in measured], marker="o", label="inputs/s")
    right.set(xlabel="batch size", ylabel="inputs/s", title="batch size", xscale="log")
    right.set_xticks(sizes, [str(size) for size in sizes])
    right.minorticks_off()
    right.set_ylim(0, 1.1 * max(one.rate for one in measured))
    memory = right.twinx()
    memory.plot(sizes, [one.memory / 2**20 for one in measured], marker="s", color="tab:orange", linestyle="--")
    memory.set_ylabel("peak memory, MiB (dashed)")
    memory.set_ylim(
        0, 1.1 * max([1, *(one.memory / 2**20 for one in measured)])
    )  # else a megabyte more looks like a wall
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()
