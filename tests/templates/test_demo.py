"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.answers import TYPES, AnswerSet
from tests.conftest import ROOT, git
from tests.templates.checks import files_of
from tests.templates.test_child import run

SIGN = {"service": '"label":', "batch": "rows with the columns", "library": "list"}


def demo(folder: Path, *options: str) -> str:
    command = [sys.executable, "-W", "ignore", str(ROOT / "tools" / "demo.py"), *options]
    environment = {**os.environ, "DEMO_FOLDER": str(folder)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("project_type", TYPES)
def test_the_demo_shows_real_results_and_leaves_a_clean_child(project_type, render, tmp_path):
    text = demo(tmp_path / "demo", "--type", project_type)
    assert SIGN[project_type] in text, text
    assert text.count(" passed") == 2, f"the tests and the smoke test were not told: {text}"
    assert "Next:\n\n  cd " in text, text
    child = tmp_path / "demo"
    run(child, "scripts/lint")
    assert "no GPU can be used" in run(child, "scripts/smoke", "--require", "model", expect=1)
    git(child, "init", "--quiet")
    git(child, "add", "--all")
    of_this_copy = tuple(yaml.safe_load((ROOT / "company.yml").read_text())["ci"])
    fresh = render(AnswerSet(project_type, "plain", project_name="demo", ci=of_this_copy))
    made = set(git(child, "ls-files").splitlines()) - {str(path.relative_to(fresh)) for path in files_of(fresh)}
    assert not made, f"{project_type}: git would take what its own scripts made: {made}"
