"""The list of skips: each entry is whole, and a skip that is on no list fails a run that asks for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.sampling import sampled
from tests.skips import LIST, STRICT, listed

ENTRIES = yaml.safe_load(LIST.read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_an_entry_names_a_test_a_reason_and_why(entry: dict[str, str]) -> None:
    file, _, name = entry["test"].partition("::")
    assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), f"there is no {entry['test']}"
    re.compile(entry["reason"])
    assert entry["why"].strip()


def test_the_same_reason_of_another_test_is_not_on_the_list() -> None:
    reason = "only the torch images hold Triton"
    assert listed("tests/images/test_contents.py::test_x", reason)
    assert not listed("tests/images/test_devel.py::test_x", reason)
    assert not listed("tests/images/test_contents.py::test_x", f"{reason}, or so")


@pytest.mark.parametrize(("strict", "code"), sampled([("", 0), ("1", 1)], [("1", 1)]))
def test_a_skip_that_is_on_no_list_is_named_and_fails_a_strict_run(tmp_path: Path, strict: str, code: int) -> None:
    (tmp_path / "test_x.py").write_text("import pytest\n\ndef test_x(): pytest.skip('no reason at all')\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "tests.skips", str(tmp_path / "test_x.py")],
        cwd=ROOT, env=os.environ | {STRICT: strict}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert re.search(r"not in tests/skips.yml.*test_x.py::test_x: no reason at all", done.stdout), done.stdout
