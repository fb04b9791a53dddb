"""Tables that say what base-images/catalog.yml says, and the list of decisions."""

from __future__ import annotations

import json
from typing import Any

import yaml

from docs.figures.blocks import ROOT, table

# Compute capability of each GPU generation, with examples (developer.nvidia.com/cuda-gpus).
GENERATIONS = {
    "6.0": ("Pascal", "P100"),
    "7.0": ("Volta", "V100"),
    "7.5": ("Turing", "T4, RTX 20"),
    "8.0": ("Ampere", "A100, A30"),
    "8.6": ("Ampere", "A10, A40, RTX 30"),
    "8.9": ("Ada", "L4, L40S, RTX 40"),
    "9.0": ("Hopper", "H100, H200, GH200"),
    "10.0": ("Blackwell", "B200, GB200"),
    "10.3": ("Blackwell", "B300, GB300"),
    "12.0": ("Blackwell", "RTX 5090, other RTX 50, RTX PRO"),
}


def catalogue() -> dict[str, Any]:
    """Return the catalogue."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8"))
    return found


def rows(own: bool = True) -> list[dict[str, Any]]:
    """Return the images that a new child can have, with or without a company's own."""
    return [row for row in catalogue()["images"] if row["state"] != "retired" and (own or "pinned_minor" not in row)]


def title(row: dict[str, Any]) -> str:
    """Return the name for people of the framework in a row."""
    return next(str(one["title"]) for one in catalogue()["frameworks"] if one["name"] == row["framework"])


def states(own: bool = True) -> str:
    """Return what is in each image and how long it is kept."""
    head = ["image", "contains", "driver", "fixes until"]
    lines = []
    for row in rows(own):
        versions = [f"{title(row)} {row['framework_version']}"] if row["framework_version"] else []
        versions += [f"CUDA {row['cuda']}"]
        driver = f"{row['driver_min']} or newer ({row['driver_full']})"
        lines.append([f"`{row['name']}`", ", ".join(versions), driver, row["end_of_life"]])
    return table(head, lines)


def number(capability: str) -> tuple[int, int]:
    """Return a compute capability as a pair that can be compared."""
    major, minor = capability.split(".")
    return int(major), int(minor)


def reach(row: dict[str, Any], capability: str) -> str:
    """Return a row that serves a GPU, "" where it does not: machine code runs upward within a major, PTX on newer."""
    mine = number(capability)
    code = row["compute_capabilities"]
    if any(number(c)[0] == mine[0] and number(c) <= mine for c in code["sass"]):
        return f"`{row['name']}`"
    compiles = any(number(c) <= mine for c in code["ptx"])
    return f"`{row['name']}` (compiles at the first start, driver {row['driver_full']})" if compiles else ""


def generations(own: bool = True) -> str:
    """Return which images run on which GPUs; GPUs with the same images share a line."""
    lines: list[list[str]] = []
    for capability, (name, examples) in GENERATIONS.items():
        gpu = f"{name} {capability} ({examples})"
        served = [reach(row, capability) for row in rows(own)]
        images = ", ".join(filter(None, served)) if "" in served or "(" in str(served) else "all"
        if lines and lines[-1][1] == images:
            lines[-1][0] += f", {gpu}"
        else:
            lines.append([gpu, images])
    return table(["GPU, compute capability", "images"], lines)


def compatibility() -> str:
    """Return which package fits which image, as `make compatibility` found; of a company's row it may not be known."""
    lines = [[f"`{one['name']}`"] for one in catalogue()["compatibility"]]
    for row in rows():
        file = ROOT / "base-images" / row["name"] / "compatibility.json"
        found = json.loads(file.read_text(encoding="utf-8"))["packages"] if file.exists() else {}
        for line in lines:
            fit = found.get(line[0].strip("`"), {"version": "?"})
            line.append(fit["version"] or "no")
    return table(["package", *(f"`{row['name']}`" for row in rows())], lines)


def decisions() -> str:
    """Return a list of the pages under docs/decisions."""
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in pages]
    return "\n".join(f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True))
