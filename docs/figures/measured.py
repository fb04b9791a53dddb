"""Texts with figures, made from the result files of the benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

from docs.figures.blocks import ROOT, table
from docs.figures.service import Result, figures

RESULTS = ROOT / "benchmarks" / "results"
UNEVEN = "benchmarks/results/service-uneven.json"
ENCODER = ("encoder, uneven", "encoder, real lines")
LARGE_PARTS, COUNTS = "job, parts of 50,000 rows", "job, the model counts tokens"


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


def service() -> str:
    """Return the comparison with other servers, with texts of one length and of many."""
    return figures(load("benchmarks/results/service.json")) + "\n" + figures(load(UNEVEN))


def ceiling(texts: int = 32) -> float:
    """Return the texts a second that the stand-in for a GPU can do in batches of `texts`."""
    source = (ROOT / "benchmarks" / "service" / "models.py").read_text(encoding="utf-8")
    found = re.search(r"time\.sleep\(([\d.]+) \+ ([\d.]+) \* len", source)
    assert found, "benchmarks/service/models.py: the times of the device"
    return texts / (float(found[1]) + float(found[2]) * texts)


def service_reading() -> str:
    """Return what the comparison says, in sentences whose figures are computed."""
    result: Result = load("benchmarks/results/service.json")
    cells = {(c["model"], c["server"], c["clients"]): c for c in result["cells"]}
    most, own = ceiling(), "this template"
    share = {s: cells["device", s, 64]["rate"] / most for s in (own, "mosec", "litserve", "bentoml")}
    busy, alone = cells["device", own, 64], cells["device", own, 1]
    one = 1000 / ceiling(1)
    uneven = {(c["server"], c["clients"]): c for c in load(UNEVEN)["cells"]}
    most_others = max(c["rate"] for (server, clients), c in uneven.items() if server != own and clients == 64)
    tiny = cells["tiny", "mosec", 64]["rate"] / cells["tiny", own, 64]["rate"]
    return (
        f"- On a device with a fixed cost for each call (as a GPU has) and 64 clients, the service reaches "
        f"{percent(share[own])} of what the device can do\n"
        f"  (p50 {busy['p50']:.0f} ms, p99 {busy['p99']:.0f} ms); mosec {percent(share['mosec'])}, "
        f"LitServe {percent(share['litserve'])}, BentoML {percent(share['bentoml'])}.\n"
        f"- A lone client waits {alone['p50']:.1f} ms, of which the device takes {one:.1f} ms.\n"
        f"- With texts of uneven length and 64 clients, a sentence encoder answers "
        f"{uneven[own, 64]['rate'] / most_others:.1f} times the requests of the next server,\n"
        f"  {uneven[own, 64]['rate'] / uneven['litserve', 64]['rate']:.1f} times those of LitServe.\n"
        f"- Where the model takes almost no time, mosec answers {tiny:.1f} times as many requests: its front is "
        f"written in Rust.\n"
    )


def shown(way: str) -> str:
    """Return how a way of the batch comparison is called in tables and pictures."""
    return re.sub("^job", "this template", way)


def batch_reading() -> str:
    """Return what the comparison of the batch job says, in sentences whose figures are computed."""
    result = load("benchmarks/results/batch.json")
    fast, *encoder = (result[name]["ratios"] for name in ("starting model, real lines", *ENCODER))

    def times(way: str, other: str) -> str:
        uneven, even = (f"{ratios[f'{way} over {other}']:.1f}" for ratios in encoder)
        return f"{uneven} and {even} times"

    sentences = [
        f"A sentence encoder does {times('job', 'bare')} the rows of a bare loop over texts in memory, where their "
        f"length varies and where it hardly does; {times(COUNTS, 'bare')} when it counts its tokens itself.",
        f"Compared with Ray Data: {times('job', 'ray')} the rows, {times(COUNTS, 'ray')} with its own count, with "
        f"{percent(max(ratios['memory of job over ray'] for ratios in encoder))} of its memory at most.",
        f"A model of some microseconds a row, as a child starts with, does {percent(fast['job over bare'])} of the "
        f"bare loop's rows, and {percent(fast[f'{LARGE_PARTS} over bare'])} with `--part-rows 50000`: each part costs "
        f"some milliseconds. That is {fast['job over pandas']:.1f} times pandas and "
        f"{fast['job over ray']:.1f} times Ray Data.",
    ]
    wrapper = TextWrapper(120, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(wrapper.fill(f"- {sentence}") for sentence in sentences)


def batch() -> str:
    """Return the comparison of the batch job with other ways to do the same."""
    result = load("benchmarks/results/batch.json")
    first = next(entry["machine"] for entry in result.values())
    parts = [
        f"Measured by `python -m benchmarks.batch.run` on {machine_of(first)}; the median of the rounds. The model has "
        'one thread. Under "every core" bare and this template have one for each core, Ray has an actor for each, and '
        "workers share the cores.\n"
    ]
    lines = []
    for name, entry in result.items():
        for way, found in entry.get("ways", {}).items():
            per_cpu = f"{found['rows_per_cpu_second']:,.0f}" if found["rows_per_cpu_second"] else "-"
            figures = [f"{found['rows_per_second']:,.1f}", per_cpu, f"{found['memory_mib']:,}"]
            lines.append([name, shown(way), *figures])
    head = ["model, input", "way", "rows a second", "rows a second of processor time", "memory (MiB)"]
    parts.append(table(head, lines))
    if "start-up" in result:
        start = result["start-up"]
        parts.append(
            f"A run without rows takes {start['run_without_rows_s']:.1f} s, of which framework and model "
            f"{start['import_and_load_model_s']:.1f} s.\n"
        )
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    loads = [entry["machine"]["load_average"][0] for entry in result.values()]
    parts.append(f"Versions: {versions}. The machine's load was {min(loads)} to {max(loads)} at the end of a part.\n")
    return "\n".join(parts)


def images() -> str:
    """Return size, import time and change of the base images."""
    result = load("benchmarks/images/results.json")
    any_part = next(iter(result.values()))["machine"]
    parts = [
        f"Measured by `python -m benchmarks.images.run` on {machine_of(any_part)}, Docker {any_part['docker']}; "
        f"the machine of each part is in `benchmarks/images/results.json`.\n"
    ]
    if "plain" in result:
        head = ["image", "compressed (MB)", "pip alone (MB)", "ratio", "cold import (s)", "pip alone (s)"]
        lines = []
        for name, found in result["plain"]["figures"].items():
            size, time = found["compressed_mb"], found["import_s"]
            cells = [f"{size['image']:,.0f}", f"{size['plain']:,.0f}", f"{size['ratio']:.2f}"]
            lines.append([f"`{name}`", *cells, f"{time['image']:.1f}", f"{time['plain']:.1f}"])
        parts.append(table(head, lines))
        busy = load_of(result["plain"]["machine"])
        note = f" {result['plain']['note']}" if "note" in result["plain"] else ""
        parts.append(f"pip alone: the same lock installed by pip into the same operating system{busy}.{note}\n")
    if "size" in result:
        lines = [[f"`{n}`", f"{f['compressed_mb']:,.0f}"] for n, f in result["size"]["figures"].items()]
        parts.append(table(["image", "compressed (MB)"], lines))
    if "change" in result:
        found = result["change"]["figures"]
        parts.append(
            f"A one-line change in a child: rebuilt in {found['median_s']:.1f} s, "
            f"{found['pulled_bytes']['by_content']:,} bytes to pull.\n"
        )
    if "update" in result:
        found = result["update"]["figures"]
        parts.append(
            f"A patch release of torch re-pulls {percent(found['patch']['part']['by_content'])} of the image, a minor "
            f"release that moves cuDNN and NCCL {percent(found['minor']['part']['by_content'])}.\n"
        )
    return "\n".join(parts)


def fleet() -> str:
    """Return how long the fleet tool takes."""
    result = load("benchmarks/results/fleet.json")
    machine = result["machine"]
    head = ["children", "push", "push again", "status", "largest process"]
    lines = []
    for found in result["fleets"]:
        times = [f"{found[step]['cpu_s'] / found['children']:.2f} s" for step in ("push", "push_again", "status")]
        lines.append([str(found["children"]), *times, f"{found['push']['largest_process_mib']} MiB"])
    return (
        f"Measured by `make bench-fleet` on {machine_of(machine)}, {result['jobs']} jobs, Copier {machine['copier']}; "
        f"the children are bare repositories on the same disk. CPU seconds for each child:\n\n{table(head, lines)}"
    )


SMOKE = {
    "walk_cpu_s": ("walk in an image without a GPU, processor time", "{:.2f} s"),
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
    on_gpus = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(evidence.glob("gpu-smoke-*.json"))]
    for found in on_gpus:
        walk = found["without_a_framework"]
        seconds = f"{walk['median']['total_s']:.2f} s" if walk else "it failed"
        place = f"walk on a GPU ({found['machine']['gpu']}), no framework"
        lines.append([place, f"under {found['target_s']:.2f} s", seconds])
    return (
        f"Measured by `benchmarks/gpu_smoke/measure.py` in the image `{result['image']}`, "
        f"median of {result['runs']} runs, on {machine_of(machine)}{load_of(machine)}.\n\n"
        f"{table(['figure', 'target', 'measured'], lines)}"
    )


def gpu_evidence() -> str:
    """Return which files prove something on a GPU, or that none does."""
    found = sorted(path.name for path in EVIDENCE.glob("*.json"))
    if not found:
        return (
            "**Not yet run on a GPU.** Everything in this repository was tested on machines without one. What only a "
            "GPU can prove is\nmarked so where it stands; reports of runs on a GPU will be in `docs/evidence/`.\n"
        )
    return (
        "Runs on a GPU: "
        + ", ".join(f"`docs/evidence/{name}`" for name in found)
        + (".\nWhat needs a GPU and was not run on one says so.\n")
    )
