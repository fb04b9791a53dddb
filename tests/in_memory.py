"""`--in-memory` keeps the files of a run in memory where there is room: tests of updates write thousands of files."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

FOLDER = Path("/dev/shm")
ROOM = 6 << 30  # three times what `make test` leaves
NAME = re.compile(r"tests-(\d+)-\w+")


def room(folder: Path) -> int:
    """Return how many bytes may be written to `folder`, which takes them from memory; 0 where programs cannot run."""
    try:
        if os.statvfs(folder).f_flag & os.ST_NOEXEC or not os.access(folder, os.W_OK):
            return 0
        told = re.search(r"(?m)^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text())
        return min(shutil.disk_usage(folder).free, int(told[1]) << 10 if told else 0)
    except OSError:
        return 0


def own_folder(folder: Path) -> Path:
    """Make a folder for this run, and remove those of runs that have ended."""
    for left in folder.iterdir():
        named = NAME.fullmatch(left.name)
        if named and not Path("/proc", named[1]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"tests-{os.getpid()}-", dir=folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--in-memory", action="store_true", help="keep temporary files in memory, where there is room")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let pytest, and all that asks for a temporary folder, take the one in memory; workers are told by the first."""
    if not config.option.in_memory or config.option.basetemp or hasattr(config, "workerinput") or room(FOLDER) < ROOM:
        return
    made = own_folder(FOLDER)
    (made / "tmp").mkdir()
    config.option.basetemp = str(made / "t")
    os.environ["TMPDIR"] = tempfile.tempdir = str(made / "tmp")


def pytest_report_header(config: pytest.Config) -> str:
    """Say where the files are."""
    return f"temporary files: {config.option.basetemp or tempfile.gettempdir()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what passed; what failed stays for whoever looks into it, until the next run."""
    place = Path(config.option.basetemp or "/nowhere").parent
    named, reporter = NAME.fullmatch(place.name), config.pluginmanager.get_plugin("terminalreporter")
    if named and int(named[1]) == os.getpid() and reporter and not reporter.stats.get("failed"):
        shutil.rmtree(place, ignore_errors=True)
