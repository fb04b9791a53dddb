"""Fixtures: the fakes compiled once per worker, and a fresh pretended machine per test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from smoke_machine import HERE, PACKAGE_ROOT, Machine

sys.path.insert(0, str(PACKAGE_ROOT))


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Compile the C fakes; gcc is needed."""
    folder = tmp_path_factory.mktemp("fakes")
    built = {}
    for kind in ("cuda", "nvml", "toolkit", "files"):
        built[kind] = folder / f"fake_{kind}.so"
        source = HERE / "fakes" / f"fake_{kind}.c"
        command = [
            "gcc",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            built[kind],
            source,
            "-ldl",
            "-lm",
        ]
        subprocess.run(command, check=True)
    return built


@pytest.fixture
def machine(tmp_path: Path, fakes: dict[str, Path]) -> Machine:
    """An empty machine: no GPU, no driver, no libraries."""
    return Machine(tmp_path, fakes)
