"""The figures of runs on a GPU, from docs/evidence/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docs.figures.blocks import ROOT, table

EVIDENCE = ROOT / "docs/evidence"
NOT_RUN = "Not yet run on a GPU: `python -m benchmarks.gpu.run` does it where one is.\n"


def runs(evidence: Path) -> list[dict[str, Any]]:
    """Return what benchmarks.gpu.run left for each GPU."""
    paths = sorted(evidence.glob("workloads-*.json"))
    return [{"path": f"docs/evidence/{path.name}"} | json.loads(path.read_text(encoding="utf-8")) for path in paths]


def place(run: dict[str, Any]) -> str:
    """Return where a run was measured."""
    about = run["machine"]
    where = f"{about['gpu']} next to {about['cores']} CPU cores"
    return f"{where}, PyTorch {about['torch']},\n{run['measured']} (`{run['path']}`)"


def gpu_service(evidence: Path = EVIDENCE) -> str:
    """Return requests a second of the encoder on CPU and GPU, and what the memory plan promised."""
    said = []
    for run in runs(evidence):
        cells = {(row["on"], row["text"], row["clients"]): row for row in run["service"]}
        ways = list(dict.fromkeys(row["on"] for row in run["service"]))
        lines = []
        for text, clients in dict.fromkeys((row["text"], row["clients"]) for row in run["service"]):
            rates = [cells[way, text, clients] for way in ways]
            shown = [f"{row['rate']:,.0f} ({row['p99']:,.0f} ms)" for row in rates]
            ratio = max(row["rate"] for row in rates) / rates[0]["rate"]
            lines.append([text, str(clients), *shown, f"{ratio:.1f}"])
        said.append(
            f"Requests a second (p99) of the sentence encoder all-MiniLM-L6-v2 on {place(run)}:\n\n"
            + table(["text", "clients", *ways, "GPU over CPU"], lines)
            + memory_of(run["memory"])
        )
    return "\n".join(said) or NOT_RUN


def memory_of(memory: dict[str, Any]) -> str:
    """Return what the memory plan promised and what a full GPU did."""
    plan, used = memory["plan"], memory["alone"]["metrics"]["service_gpu_memory_peak_bytes"]
    refused = memory["an input that fits nowhere"]["status"]
    failed = sum(step["failed"] for step in memory.values() if "failed" in step)
    return (
        f"\nWith a model that takes 2 GiB for each input, the memory plan allowed {plan['whole_mb'] / 1e3:,.0f} GB for "
        f"{plan['batch']:.0f} inputs at once;\n64 clients used {used / 1e9:,.0f} GB at most. An input of 500 GiB got "
        f"the status {refused}, the requests after it were answered; {failed} failed.\n"
    )


def gpu_batch(evidence: Path = EVIDENCE) -> str:
    """Return rows a second of the batch job on CPU and GPU."""
    said = []
    for run in runs(evidence):
        lines = [[row["on"], f"{row['rows_per_s']:,}", f"{row['start_s']:.1f} s"] for row in run["batch"]]
        said.append(
            f"The sentence encoder on texts of 20 to 150 words, on {place(run)}:\n\n"
            + table(["on", "rows a second, without the start", "start"], lines)
        )
    return "\n".join(said) or NOT_RUN


def gpu_training(evidence: Path = EVIDENCE) -> str:
    """Return time and memory of a training step by way of training."""
    said = []
    for run in runs(evidence):
        base = run["training"][0]["step_ms"]
        lines = []
        for row in run["training"]:
            peak = f"{row['peak_mib']:,} MiB" if row["peak_mib"] else "-"
            lines.append([row["on"], f"{row['step_ms']:,.1f}", f"{base / row['step_ms']:.1f}", peak])
        said.append(
            f"A transformer of 34 million weights, 32 texts of 256 tokens a step, on {place(run)}:\n\n"
            + table(["on", "ms a step", "times the first", "peak memory of the GPU"], lines)
        )
    return "\n".join(said) or NOT_RUN
