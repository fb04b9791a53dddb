"""`--in-memory` takes memory where there is room for it, and leaves none of it taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import in_memory
from tests.conftest import ROOT
from tests.sampling import sampled

WHERE = """
import pathlib, tempfile

def test_where(tmp_path):
    pathlib.Path("where").write_text(f"{tmp_path}\\n{tempfile.mkdtemp()}")
"""


def run(folder: Path, memory: Path, needed: int, *options: str, test: str = WHERE) -> list[Path]:
    """Run a test in a process of its own with `memory` as the memory; return where it had its files."""
    (folder / "test_it.py").write_text(test)
    plugin = f"from pathlib import Path\nfrom tests import in_memory\nfrom tests.in_memory import *\n\
in_memory.FOLDER, in_memory.ROOM = Path({str(memory)!r}), {needed}\n"
    (folder / "conftest.py").write_text(plugin)
    own = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", folder, "-p", "xdist", *options]
    subprocess.run([*command, "test_it.py"], cwd=folder, env=own, capture_output=True, check=False)
    return [Path(line) for line in (folder / "where").read_text().splitlines()]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Return a folder in place of the one in memory."""
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory"


@pytest.mark.parametrize("workers", sampled([[], ["-n", "1"]], [["-n", "1"]]), ids=["alone", "a worker"])
def test_files_are_there_and_go_with_the_run(tmp_path: Path, memory: Path, workers: list[str]) -> None:
    places = run(tmp_path, memory, 0, "--in-memory", *workers)
    assert len(places) == 2
    assert all(place.is_relative_to(memory) for place in places), places
    assert list(memory.iterdir()) == []


@pytest.mark.slow
def test_what_failed_stays_until_the_next_run(tmp_path: Path, memory: Path) -> None:
    [place, _] = run(tmp_path, memory, 0, "--in-memory", test=f"{WHERE}    assert False\n")
    assert place.exists()
    run(tmp_path, memory, 0, "--in-memory")
    assert list(memory.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("needed", "options"), [(1 << 60, ["--in-memory"]), (0, [])], ids=["no room", "not asked for"])
def test_the_disk_is_taken_otherwise(tmp_path: Path, memory: Path, needed: int, options: list[str]) -> None:
    assert not any(place.is_relative_to(memory) for place in run(tmp_path, memory, needed, *options))
    assert list(memory.iterdir()) == []


def test_a_folder_without_room_or_right_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_memory.room(tmp_path / "none") == 0
    assert 0 < in_memory.room(tmp_path) <= 1 << 60
    flags = os.statvfs(tmp_path)
    noexec = type("Flags", (), {"f_flag": flags.f_flag | os.ST_NOEXEC})
    monkeypatch.setattr(os, "statvfs", lambda _: noexec)
    assert in_memory.room(tmp_path) == 0
