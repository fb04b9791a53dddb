"""The targets of the fleet: a pipeline's parameter is text, for make and for the shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

PYTHON = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'


@pytest.mark.parametrize(
    ("target", "name", "option"),
    [
        ("fleet-status", "FLEET_FILE", "--file="),
        ("fleet-push", "VERSION", "--to="),
        ("fleet-push", "FLEET_FILE", "--file="),
        ("fleet-close", "VERSION", "--to="),
    ],
)
def test_a_parameter_is_one_word_and_runs_nothing(tmp_path: Path, target: str, name: str, option: str) -> None:
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    included = str(ROOT / "hooks/updates.mk").replace(" ", "\\ ")
    (tmp_path / "Makefile").write_text(f"SHELL := /bin/bash\ninclude {included}\n")
    evil = "-x $(shell touch made)$(touch shell)`touch tick`\"; touch quote; ' $HOME"
    command = ["make", "--silent", target, f"PYTHON={tmp_path}/python", "READY="]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {name: evil}, capture_output=True, text=True, check=True
    )
    assert option + evil in done.stdout.splitlines(), done.stdout
    assert sorted(place.name for place in tmp_path.iterdir()) == ["Makefile", "python"]
