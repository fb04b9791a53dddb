"""The benchmarks of updates start as programs of their own, as make starts them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.updates.copiers import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks" / "fleet").glob("[!_]*.py")))
def test_a_benchmark_finds_all_that_it_imports(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.fleet.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
