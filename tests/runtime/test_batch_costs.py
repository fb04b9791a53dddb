"""What makes the batch job quick, and gives the same result as what is slow."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata

import numpy as np
import pyarrow as pa
import pytest
from gpu_repo_runtime.batch.ordering import Sorted
from gpu_repo_runtime.batch.parts import FILE, INPUT, ROW, Part
from gpu_repo_runtime.batch.provenance import packages
from gpu_repo_runtime.batch.results import answer_column

from tests.conftest import ROOT

VECTORS = pa.field("v", pa.list_(pa.float32()))


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


@pytest.mark.parametrize("value", [True, False, np.True_])
@pytest.mark.parametrize("others", [[0.5], [0.0, 1.0], [None]])
def test_a_truth_among_the_numbers_of_a_list_is_refused(value, others):
    with pytest.raises((TypeError, ValueError)):
        answer_column([[0.25], [*others, value]], VECTORS)


def test_lists_of_zeros_and_ones_are_numbers():
    assert answer_column([[0.0, 1.0], (1, 0), None, np.ones(2), [np.float32(1), None]], VECTORS).to_pylist() == [
        [0, 1],
        [1, 0],
        None,
        [1, 1],
        [1, None],
    ]


def test_every_package_has_the_name_and_version_that_its_metadata_say():
    installed = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    assert packages() == {"python": platform.python_version()} | installed


IMPORTS = """
import sys
from gpu_repo_runtime.batch import cli, job
from gpu_repo_runtime.batch.progress import Progress
Progress("cpu").add(1)
print([name for name in ("tqdm",) if name in sys.modules])
"""


def ran(code: str, **environment: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "ARROW_"))}
    command = [sys.executable, "-c", code]
    path = {"PYTHONPATH": str(ROOT / "runtime" / "src")}
    return subprocess.run(command, env=own | environment | path, capture_output=True, text=True, check=True).stdout


def test_what_draws_a_bar_or_sends_metrics_is_not_imported_for_nothing():
    assert ran(IMPORTS).strip() == "[]"
