"""The list of skips: each entry names a test that is there, and its reason."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.needs import NEEDS, reason
from tests.skips import entries, is_listed


def test_an_entry_names_a_test_a_reason_and_why() -> None:
    for entry in entries():
        file, _, name = entry["test"].partition("::")
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), f"there is no {entry['test']}"
        re.compile(entry["reason"])
        assert entry["why"].strip(), entry


def test_a_reason_counts_for_its_test_alone() -> None:
    why = "only the torch images hold Triton"
    assert is_listed("tests/images/test_contents.py::test_x", why)
    assert not is_listed("tests/images/test_devel.py::test_x", why)


def test_where_ci_runs_a_missing_program_fails() -> None:
    assert not [name for name in NEEDS if is_listed("tests/x.py::test_x", reason(name))]
