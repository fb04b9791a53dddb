"""Texts with figures, made from the result files of the benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

from docs.figures.blocks import ROOT, table

RESULTS = ROOT / "benchmarks" / "results"
ENCODER = ("encoder, uneven", "encoder, real lines")
LARGE_PARTS = "job, parts of 50,000 rows"


def load(path: str) -> Any:
    """Return a result file, by its path from the root of the repository."""
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def machine_of(machine: dict[str, Any]) -> str:
    """Return a machine in words."""
    python = f", Python {machine['python']}" if "python" in machine else ""
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB{python}"


def load_of(machine: dict[str, Any]) -> str:
    """Return how busy the machine was, where the run wrote it down."""
    load = machine.get("load_average")
    first = load[0] if isinstance(load, list) else load
    return "" if first is None else f", load {first} at the end"


def percent(part: float) -> str:
    """Return a part of 1 in percent."""
    return f"{part * 100:.0f} %"


def ceiling(texts: int = 32) -> float:
    """Return the texts a second that the stand-in for a GPU can do in batches of `texts`."""
    source = (ROOT / "benchmarks/service/servers/bench_model/model.py").read_text(encoding="utf-8")
    found = re.search(r"time\.sleep\(([\d.]+) \+ ([\d.]+) \* len", source)
    assert found, "no times of the device"
    return texts / (float(found[1]) + float(found[2]) * texts)


def service_reading() -> str:
    """Return what the comparisons say, in sentences whose figures are computed."""
    rows = load("benchmarks/results/service.json")["cells"]
    cells = {(row["model"], row["server"], row["clients"]): row for row in rows}
    stops, own = load("benchmarks/results/service-stops.json"), "this template"
    busy, alone = cells["device", own, 64], cells["device", own, 1]
    encoder = {server: cells["encoder", server, 64]["rate"] for server in (own, "mosec", "litserve")}
    tiny = cells["tiny", "mosec", 64]["rate"] / cells["tiny", own, 64]["rate"]
    counts = {f"{kind} {end}": 0 for kind in ("kept", "new") for end in ("answered", "lost")} | stops["counts"]
    return (
        f"- On a device with a fixed cost for each call (as a GPU has) and 64 clients, the service reaches "
        f"{percent(busy['rate'] / ceiling())} of what the device can do\n"
        f"  (p99 {busy['p99']:.0f} ms). A lone client waits {1000 / alone['rate']:.1f} ms, of which the device "
        f"takes {1000 / ceiling(1):.1f} ms.\n"
        f"- A sentence encoder on one core and 64 clients: {encoder[own]:,.0f} requests a second; "
        f"mosec {encoder['mosec']:,.0f}, LitServe {encoder['litserve']:,.0f}.\n"
        f"- Where the model takes almost no time, mosec answers {tiny:.1f} times as many requests: its front is "
        f"written in Rust.\n"
        f"- In {stops['machine']['stops']} stops under load, {counts['kept lost']} of {counts['kept answered']:,} "
        f"requests on kept connections were lost,\n"
        f"  and {counts['new lost']} of {counts['new answered'] + counts['new lost']:,} on connections that were "
        f"opened meanwhile. Later ones are refused.\n"
    )


def shown(way: str) -> str:
    """Return how a way of the batch comparison is called in tables and pictures."""
    return re.sub("^job", "this template", way)


def batch_reading() -> str:
    """Return what the comparison of the batch job says, in sentences whose figures are computed."""
    result = load("benchmarks/results/batch.json")
    start = result["start of a plain child"]["ways"]["job"]

    def ratio(case: str, other: str, figure: str = "rows_per_second", way: str = "job") -> float:
        ways = result[case]["ways"]
        return float(ways[way][figure] / ways[other][figure])

    def fast(other: str, way: str = "job") -> float:
        return ratio("starting model, real lines", other, way=way)

    def times(other: str) -> str:
        return " and ".join(f"{ratio(case, other):.1f}" for case in ENCODER) + " times"

    kinds = ("Parquet", "CSV")
    parts = {kind: result[f"numbers, {kind}"]["ways"] | result[f"records, {kind}"]["ways"] for kind in kinds}
    costs = [f"{1 / ratio(f'numbers, {kind}', 'bare', 'rows_per_cpu_second'):.1f} ({kind})" for kind in parts]
    sentences = [
        f"A sentence encoder does {times('bare')} the rows of a bare loop over texts in memory, where their "
        f"length varies and where it hardly does.",
        f"Compared with Ray Data: {times('ray')} the rows, with "
        f"{percent(max(ratio(case, 'ray', 'memory_mib') for case in ENCODER))} of its memory at most.",
        f"A model of some microseconds a row, as a child starts with, does {percent(fast('bare'))} of the "
        f"bare loop's rows, and {percent(fast('bare', LARGE_PARTS))} with `--part-rows 50000`: each part costs "
        f"some milliseconds. That is {fast('ray'):.1f} times Ray Data.",
        f"A plain child starts in {start['start_s']:.1f} s, with {start['start_cpu_s']:.1f} s of processor time.",
        f"Four million rows of 13 numbers, as a table, take {' and '.join(costs)} times the processor time of pyarrow "
        "and the model alone:",
    ]
    wrapper = TextWrapper(120, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(wrapper.fill(f"- {sentence}") for sentence in sentences) + f"\n\n{numbers(parts)}"


def numbers(parts: dict[str, Any]) -> str:
    """Return a table of the ways to predict rows of numbers, by kind of file."""
    first, second = parts.values()
    rows = [
        [
            shown(way),
            *(f"{ways[way]['rows_per_second']:,.0f}" for ways in (first, second)),
            f"{first[way]['start_s']:.1f}",
            str(max(first[way]["memory_mib"], second[way]["memory_mib"])),
        ]
        for way in first
    ]
    return table(["", *(f"rows a second, {kind}" for kind in parts), "start in s", "memory in MiB"], rows)


def images() -> str:
    """Return where size and import time of the base images were measured."""
    machine = load("benchmarks/images/results.json")["machine"]
    return (
        f"Measured by `python -m benchmarks.images.run` on {machine_of(machine)}, Docker {machine['docker']}"
        f"{load_of(machine)}.\npip alone: the same lock installed by pip into the same operating system.\n"
    )


def fleet() -> str:
    """Return how long the fleet tool takes."""
    result = load("benchmarks/results/fleet.json")
    machine = result["machine"]
    head = ["children", "push", "push again", "status", "status of all, wall", "largest process"]
    lines = []
    for found in result["fleets"]:
        steps = [found.get(step) for step in ("push", "push_again", "status")]
        times = [f"{one['cpu_s'] / found['children']:.2f} s" if one else "-" for one in steps]
        largest = max(one["largest_process_mib"] for one in steps if one)
        lines.append([str(found["children"]), *times, f"{found['status']['wall_s']:.0f} s", f"{largest} MiB"])
    return (
        f"Measured by `make bench-fleet` on {machine_of(machine)}, {result['jobs']} jobs, Copier {machine['copier']}; "
        f"the children are bare repositories on the same disk. CPU seconds for each child:\n\n{table(head, lines)}"
    )


SMOKE = {
    "walk_cpu_s": ("walk in an image without a GPU, processor time", "{:.2f} s"),
    "walk_wall_s": ("the same, wall time of the fastest run", "{:.2f} s"),
    "first_line_cpu_s": ("start to the first line, processor time", "{:.2f} s"),
    "program_mib": ("memory of the program itself", "{:.0f} MiB"),
}


WIDTH = 130
EVIDENCE = ROOT / "docs" / "evidence"


def gpu_smoke(evidence: Path = EVIDENCE) -> str:
    """Return time and memory of gpu-smoke, with its time on each GPU that left evidence."""
    result = load("benchmarks/gpu_smoke/result.json")
    machine = result["machine"]
    lines = [
        [words, f"under {form.format(result['targets'][key])}", form.format(result["figures"][key])]
        for key, (words, form) in SMOKE.items()
    ]
    for found in (json.loads(path.read_text(encoding="utf-8")) for path in sorted(evidence.glob("gpu-smoke-*.json"))):
        walk, place = found["without_a_framework"], f"walk on a GPU ({found['machine']['gpu']}), no framework"
        seconds = f"{walk['median']['total_s']:.2f} s" if walk else "it failed"
        lines.append([place, f"under {found['target_s']:.2f} s", seconds])
    return (
        f"Measured by `benchmarks/gpu_smoke/measure.py` in the image `{result['image']}`, "
        f"median of {result['runs']} runs, on {machine_of(machine)}{load_of(machine)}.\n\n"
        f"{table(['figure', 'target', 'measured'], lines)}"
    )


def gpu_evidence() -> str:
    """Return which files prove something on a GPU."""
    found = ", ".join(f"`docs/evidence/{path.name}`" for path in sorted(EVIDENCE.glob("*.json")))
    return f"Runs on a GPU: {found}.\nWhat needs a GPU and was not run on one says so.\n"
