"""What makes the batch job quick, and gives the same result as what is slow."""

from __future__ import annotations

import platform
from importlib import metadata

import pyarrow as pa
import pytest
from gpu_repo_runtime.batch.ordering import Sorted
from gpu_repo_runtime.batch.parts import FILE, INPUT, ROW, Part
from gpu_repo_runtime.batch.provenance import packages


def a_part(texts: list[str]) -> Part:
    rows = pa.array(range(len(texts)), pa.int64())
    table = pa.table({FILE: pa.array(["a"] * len(texts), pa.string()), ROW: rows, INPUT: pa.array(texts, pa.string())})
    part = Part(0, 0, [], len(texts))
    part.set(table)
    return part


@pytest.mark.parametrize("failed", [[], [0], [3, 7, 8], list(range(50))])
def test_results_stand_beside_their_rows(failed):
    texts = ["word " * (n * 7 % 11) for n in range(50)]
    rows = Sorted.of(a_part(texts))
    left = [text for place, text in enumerate(rows.some(0, len(rows.order))) if place not in failed]
    table = rows.in_order_of_input(pa.table({"said": pa.array(left, pa.string())}), failed)
    bad = {int(rows.order[place]) for place in failed}
    assert table[ROW].to_pylist() == [n for n in range(50) if n not in bad]
    assert table["said"].to_pylist() == [text for n, text in enumerate(texts) if n not in bad]


def test_every_package_has_the_name_and_version_that_its_metadata_say():
    installed = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    assert packages() == {"python": platform.python_version()} | installed
