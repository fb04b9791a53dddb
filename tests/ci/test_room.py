"""A step that the disk has no room for says so before it begins."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

STEPS = ("test", "test-slow", "test-release", "test-images", "release-check")


def room(folder: Path, free: dict[str, int], *step: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `.ci/room` with a df that tells these MB for each folder, and no Docker Engine."""
    cases = " ".join(f"{name}) free={mb} ;;" for name, mb in free.items())
    programs = {
        "df": f"#!/bin/sh\ncase $3 in {cases} esac\necho head\necho x x x ${{free}}000 x x\n",
        "docker": "#!/bin/sh\nexit 1\n",
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    around = {"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": "/temporary"} | more
    return subprocess.run([ROOT / ".ci/room", *step], env=around, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("small", ["/temporary", "."])
def test_too_little_room_is_one_line_before_anything_starts(small: str, tmp_path: Path) -> None:
    done = room(tmp_path, {"/temporary": 900_000, ".": 900_000} | {small: 12}, "test-slow")
    assert done.returncode == 1
    assert re.fullmatch(rf"make test-slow: needs \d+ MB on disk, {re.escape(small)} has 12: free some.*\n", done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize("step", STEPS)
def test_each_step_asks_before_it_starts(step: str, tmp_path: Path) -> None:
    assert room(tmp_path, {"*": 900_000}, step).returncode == 0
    assert room(tmp_path, {"*": 12}, step).returncode == 1
    recipes = "".join((ROOT / file).read_text() for file in ("Makefile", "base-images/images.mk", "hooks/updates.mk"))
    assert re.search(rf"(?m)^{step}: .*\n\t@\.ci/room {step}\n", recipes), f"make {step} does not ask for room first"
