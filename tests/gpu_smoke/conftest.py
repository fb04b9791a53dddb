"""Fixtures: the fakes compiled once, and a fresh pretended machine per test."""

from __future__ import annotations

import compileall
import os
from pathlib import Path

import pytest

from tests.gpu_smoke.smoke_machine import FRAMEWORKS, PACKAGE_ROOT, Machine, compile_fakes, fakes_in
from tests.shared import once


def pytest_itemcollected(item: pytest.Item) -> None:
    """The stand-ins of the driver and its libraries are C."""
    if "fakes" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("gcc"))


@pytest.fixture(scope="session")
def fakes(shared: Path) -> dict[str, Path]:
    """Compile the C fakes, for which gcc is needed, and the package, which each walk would compile anew."""

    def make(folder: Path) -> None:
        folder.mkdir()
        compileall.compile_dir(PACKAGE_ROOT / "gpu_smoke", quiet=1)
        compileall.compile_dir(FRAMEWORKS, quiet=1)
        compile_fakes(folder)

    return fakes_in(once(shared / "fakes", make))


def _driver_that_fakes_cannot_hide() -> str:
    """Return a driver of this very machine in a folder that the loader always searches, "" when there is none."""
    triplet = f"{os.uname().machine}-linux-gnu"
    folders = [f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
    return next((folder for folder in folders if Path(folder, "libcuda.so.1").exists()), "")


@pytest.fixture
def machine(tmp_path: Path, fakes: dict[str, Path]) -> Machine:
    """An empty machine: no GPU, no driver, no libraries."""
    folder = _driver_that_fakes_cannot_hide()
    if folder:
        pytest.skip(f"{folder} has a real libcuda.so.1 that the fakes cannot hide: test in a container without a GPU")
    return Machine(tmp_path, fakes)


@pytest.fixture
def no_libraries(tmp_path: Path) -> Machine:
    """A machine of files alone, for which no compiler is needed."""
    return Machine(tmp_path, {})
