"""Pictures of the results, each with a fingerprint of its data, so that a test can tell when it is old."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from docs.figures.blocks import ROOT
from docs.figures.measured import ceiling, shown

if TYPE_CHECKING:  # it takes a second to import, which only drawing needs
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN, OTHER, LINE = "#2f6f3e", "#8fa3b8", "#b3541e"
KEY = "Data"  # of the PNG's text


def digits(value: float) -> str:
    """Return a value with about three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def panels(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    """Return an empty picture and the grid of its panels, rows by columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def bars(axes: Axes, names: list[str], values: list[float], own: str) -> None:
    """Draw horizontal bars with their values, the first on top; names that begin with `own` in another colour."""
    drawn = axes.barh(names, values, color=[OWN if own and name.startswith(own) else OTHER for name in names])
    axes.bar_label(drawn, [digits(value) for value in values], padding=6, fontsize=8, backgroundcolor="white")
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def service(result: Any) -> Figure:
    """Requests a second at 64 clients and p99, for each model."""
    models = list(dict.fromkeys(cell["model"] for cell in result["cells"] if cell["clients"] == 64))
    figure, grid = panels(len(models), 2, 2.2 * len(models))
    for row, model in zip(grid, models, strict=True):
        cells = [cell for cell in result["cells"] if cell["model"] == model and cell["clients"] == 64]
        names = [cell["server"] for cell in cells]
        bars(row[0], names, [cell["rate"] for cell in cells], "this template")
        bars(row[1], names, [cell["p99"] for cell in cells], "this template")
        row[0].set_title(f"{model}: requests a second, 64 clients", fontsize=9)
        row[1].set_title(f"{model}: p99 in ms, 64 clients", fontsize=9)
        if model == "device":
            row[0].axvline(ceiling(), color=LINE, linestyle="--", linewidth=1, zorder=0, label="all the device can do")
            row[0].legend(fontsize=7, loc="lower right")
    return figure


def batch(result: Any) -> Figure:
    """Rows a second of each way, for each model and input."""
    parts = {name: entry["ways"] for name, entry in result.items() if "ray" in entry.get("ways", {})}
    figure, grid = panels(-(-len(parts) // 2), 2, 7)
    for axes in list(grid.flat)[len(parts) :]:
        axes.set_axis_off()
    for axes, (name, ways) in zip(grid.flat, parts.items(), strict=False):
        names = [shown(way).replace(", ", ",\n") for way in ways]
        bars(axes, names, [way["rows_per_second"] for way in ways.values()], "this template")
        axes.locator_params(axis="x", nbins=4)
        axes.set_title(f"{name}: rows a second", fontsize=9)
    return figure


def images(result: Any) -> Figure:
    """Compressed size and cold import time against a plain pip installation."""
    found = result["figures"]
    figure, grid = panels(1, 2, 2.4)
    titles = {"compressed_mb": "compressed size in MB", "import_s": "cold import in seconds"}
    for axes, (key, title) in zip(grid.flat, titles.items(), strict=True):
        names, values = [], []
        for image, entry in found.items():
            names += [image, f"{image}, pip alone"]
            values += [entry[key]["image"], entry[key]["plain"]]
        bars(axes, names, values, "")
        for bar, name in zip(axes.patches, names, strict=True):
            bar.set_facecolor(OTHER if "pip" in name else OWN)
        axes.set_title(title, fontsize=9)
    return figure


PLOTS: dict[str, tuple[str, Callable[[Any], Figure]]] = {
    "service.png": ("benchmarks/results/service.json", service),
    "batch.png": ("benchmarks/results/batch.json", batch),
    "images.png": ("benchmarks/images/results.json", images),
}


def fingerprint(source: str) -> str:
    """Return what stands in a picture for the data that it was drawn from."""
    data = json.loads((ROOT / source).read_text(encoding="utf-8"))
    return f"{source} {hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()}"


def drawn_from(picture: Path) -> str:
    """Return the fingerprint in a picture, "" without one."""
    if not picture.exists():
        return ""
    with Image.open(picture) as image:
        return str(image.info.get(KEY, ""))


def draw() -> None:
    """Draw every picture whose data changed."""
    for name, (source, plot) in PLOTS.items():
        picture, mark = ROOT / "docs" / name, fingerprint(source)
        if drawn_from(picture) != mark:
            figure = plot(json.loads((ROOT / source).read_text(encoding="utf-8")))
            figure.savefig(picture, dpi=110, metadata={KEY: mark, "Software": None})
