"""The wheel that children carry: what the source gives, whole, and never another under a released name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import build_wheel
import pytest
from releases import released

from tests.conftest import ROOT

HELD = ("templates/batch/wheels", "templates/library/wheels", "templates/service/wheels")
[WHEEL] = (ROOT / HELD[0]).glob("*.whl")


def test_the_committed_wheel_and_the_locks_are_what_the_source_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    before = os.umask(0o077)
    try:
        wanted = build_wheel.files(build_wheel.build(tmp_path))
    finally:
        os.umask(before)
    wrong = [
        str(path.relative_to(ROOT)) for path, data in wanted.items() if not path.exists() or path.read_bytes() != data
    ]
    assert not wrong, f"{', '.join(wrong)}: not what runtime/ gives; run make wheel"
    held = sorted(path for folder in HELD for path in (ROOT / folder).glob("*.whl"))
    assert sorted(path for path in wanted if path.suffix == ".whl") == held, f"{HELD} hold another wheel"


@pytest.mark.needs("the history of git")
def test_a_released_name_never_gets_other_bytes() -> None:
    for version, commit in released(ROOT).items():
        shown = subprocess.run(
            ["git", "show", f"{commit}:{HELD[0]}/{WHEEL.name}"], cwd=ROOT, capture_output=True, check=False
        )
        if shown.returncode == 0:
            assert shown.stdout == WHEEL.read_bytes(), f"{version} released {WHEEL.name}: raise the version in runtime/"
