"""The tables of the comparison with other servers, from benchmarks/results/service.json."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]
MODELS = {
    "device": "a stand-in for a GPU: 6 ms a call and 0.2 ms a text, so at most 2,580 requests a second",
    "tiny": "a model that takes almost no time, with PyTorch loaded",
    "encoder": "all-MiniLM-L6-v2 on one CPU core",
    "uneven": "the same encoder, and texts whose number of words is log-normal: median 20, some over 200",
}


def time(value: float) -> str:
    """Return milliseconds with three digits, and never with an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def refused(cell: dict[str, Any]) -> str:
    """Say how many requests got no answer; their times are in the percentiles too."""
    return f", {cell['wrong']:,.0f} refused" if cell["wrong"] else ""


def figures(result: Result) -> str:
    """One table for each model, requests a second and in brackets p50 / p99 in ms."""
    machine, cells = result["machine"], result["cells"]
    others = max(cell["others"] for cell in cells)
    where = f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}"
    lines = [
        f"{result['date']}, {where}. The server with all its processes on one core, wrk on the other; largest",
        "batch 32. Requests a second, in brackets p50 / p99 in ms.",
        f"Other programs used up to {others:.1f} cores meanwhile, at a lower priority.",
    ]
    servers = list(dict.fromkeys(cell["server"] for cell in cells))
    for model in dict.fromkeys(cell["model"] for cell in cells):
        mine = {(cell["server"], cell["clients"]): cell for cell in cells if cell["model"] == model}
        clients = sorted({number for _, number in mine})
        lines += ["", f"**{model}**: {MODELS[model]}", ""]
        lines += ["| | " + " | ".join(f"{n} client{'s' * (n > 1)}" for n in clients) + " | start (s) | memory (MB) |"]
        lines += ["|---" * (len(clients) + 3) + "|"]
        for server in servers:
            row = [mine[server, number] for number in clients]
            parts = [f"{cell['rate']:,.0f} ({time(cell['p50'])} / {time(cell['p99'])}){refused(cell)}" for cell in row]
            lines += [
                f"| {server} | " + " | ".join(parts) + f" | {row[0]['cold_start_s']:.1f} | {row[0]['memory_mb']:.0f} |"
            ]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    notes = [result["note"]] if "note" in result else []
    return "\n".join([*lines, "", f"Versions: {versions}.", *notes]) + "\n"
