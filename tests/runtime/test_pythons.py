"""scripts/test --python: which Pythons a library promises, and what is said where one is missing or fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_repo_runtime import pythons
from gpu_repo_runtime.script_error import ScriptError

from tests.shared import program

CLASSIFIERS = [f"Programming Language :: Python :: {one}" for one in ("3.9", "3 :: Only", "3.11")]
# Stands in for uv: 3.11 is missing if there is a file `absent`, the tests of 3.9 fail if there is a file `red`.
UV = """#!/bin/sh
[ "$1" = venv ] || exit 0
for folder; do :; done
case $folder in *3.11) ! [ -e absent ] || exit 1 ;; esac
mkdir -p "$folder/bin"
printf '#!/bin/sh\\necho "$@" >>calls\\ncase $0 in *3.9/*) ! [ -e red ] ;; esac\\n' >"$folder/bin/python"
chmod +x "$folder/bin/python"
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a library, and stand in it."""
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'a'\nclassifiers = {CLASSIFIERS}\n")
    (tmp_path / "requirements.lock").write_text("x==1 \\\n    --hash=sha256:3\n")
    program(tmp_path / "uv", UV)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_each_classifier_is_tested(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pythons.test("./uv", "all", ["-k", "one or two"]) == 0
    assert (library / "calls").read_text().splitlines()[-1].endswith("--ignore=tests/gpu -k one or two")
    (library / "red").touch()
    assert pythons.test("./uv", "all", []) == 1
    assert "Python 3.9: failed, Python 3.11: passed" in capsys.readouterr().err
    (library / "absent").touch()
    with pytest.raises(ScriptError, match=r"not tested with Python 3\.11: it is missing") as missing:
        pythons.test("./uv", "all", [])
    assert missing.value.code == 3


def test_anything_but_a_version_is_rejected(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (library / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    for asked in ("", "every", "312", "-q", "all"):
        assert pythons.test("./uv", asked, []) == (0 if asked == "all" else 2), asked
        assert "nothing was tested: write --python 3.12, or all with classifiers" in capsys.readouterr().err
