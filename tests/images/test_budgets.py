"""The limits of the catalogue: layers, compressed size, cold import, and what an update may re-pull."""

from __future__ import annotations

import time

import pytest

from benchmarks.images import layers

from .conftest import CATALOG, Built

pytestmark = pytest.mark.images


def from_top(image: Built, layer: str) -> int:
    """Return how many layers of the image stand at or above a package layer, counted in its history."""
    steps = [str(entry["CreatedBy"]) for entry in image.image.history()]
    filled = [step for step in steps if step.startswith(("RUN", "COPY", "ADD", "WORKDIR"))]
    return next(count for count, step in enumerate(filled, 1) if f"install_layer.py {layer} " in f"{step} ")


def test_size_layers_and_update_stay_in_budget(image: Built) -> None:
    """Compressed size and number of layers are within the catalogue; a new framework re-pulls the part it may.

    By position: an update of the framework changes its layer and what stands on it (at most 30 %), one that also moves
    cuDNN and NCCL changes everything from there (at most 60 %).
    """
    found = layers.measure(image.client, image.tag)
    size = layers.total(found)
    limit = image.row["budget"]["compressed_mb"]
    assert size / 1e6 <= limit, f"{image.name}: {size / 1e6:.0f} MB compressed, the budget is {limit}"
    assert len(found) <= CATALOG["max_layers"], f"{image.name}: {len(found)} layers"
    if image.row["framework"] == "plain":
        return
    part = {name: layers.total(found[-from_top(image, name) :]) / size for name in ("framework", "cudnn", "toolkit")}
    assert part["framework"] < part["cudnn"] < part["toolkit"] < 1, (
        f"{image.name}: layers stand in another order: {part}"
    )
    if image.row["framework"] == "torch":
        assert part["framework"] <= 0.30, f"{image.name}: a patch release re-pulls {part['framework']:.0%}"
        assert part["cudnn"] <= 0.60, f"{image.name}: a minor release re-pulls {part['cudnn']:.0%}"


def test_a_cold_import_stays_in_budget(image: Built) -> None:
    """The framework imports in a fresh container within the seconds of the catalogue (byte code is there already)."""
    module = image.row["framework"] if image.row["framework_version"] else "numpy"
    started = time.monotonic()
    image.run("python", "-c", f"import {module}")
    took = time.monotonic() - started
    limit = image.row["budget"]["import_seconds"]
    assert took <= limit, f"{image.name}: import {module} took {took:.1f} s with the container's start, budget {limit}"
    code = "import json, pathlib, sys; site = next(pathlib.Path('/opt/env/lib').glob('python3*/site-packages'));"
    code += "print(sum(1 for p in site.rglob('*.py')), sum(1 for p in site.rglob('*.pyc')))"
    sources, compiled = (int(number) for number in image.python(code).split())
    assert compiled >= 0.98 * sources, f"{image.name}: {compiled} of {sources} modules are compiled"
