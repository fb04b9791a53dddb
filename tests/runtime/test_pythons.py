"""scripts/test --python: which Pythons a library promises, and what is said where one is missing or fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_repo_runtime import pythons

from tests.shared import program

CLASSIFIERS = [f"Programming Language :: Python :: {one}" for one in ("3.13", "3.9", "3 :: Only", "3.11")]
# Stands in for uv: a Python whose version is in the file `absent` is missing, one in `red` fails its tests.
UV = """#!/bin/sh
[ "$1" = venv ] || exit 0
for folder; do :; done
if grep -qx "${folder##*/}" absent; then exit 1; fi
mkdir -p "$folder/bin"
printf '#!/bin/sh\\necho "$@" >>calls\\n! grep -qx %s red\\n' "${folder##*/}" >"$folder/bin/python"
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
@pytest.mark.parametrize(
    ("absent", "red", "code", "words"),
    [
        ("", "", 0, "Python 3.9: passed, Python 3.11: passed, Python 3.13: passed"),
        ("3.13", "", 3, "Python 3.11: passed, Python 3.13: not tested"),
        ("3.13", "3.9", 1, "Python 3.9: failed, Python 3.11: passed, Python 3.13: not tested"),
    ],
)
def test_each_classifier_is_tested_and_a_failure_counts_more_than_a_missing_python(
    library: Path, capsys: pytest.CaptureFixture[str], absent: str, red: str, code: int, words: str
) -> None:
    (library / "absent").write_text(f"{absent}\n")
    (library / "red").write_text(f"{red}\n")
    assert pythons.main(["--uv", "./uv", "all", "-k", "one or two"]) == code
    assert words in capsys.readouterr().err
    assert (library / "calls").read_text().splitlines()[-1].endswith("--ignore=tests/gpu -k one or two")


def test_anything_but_a_version_is_rejected(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (library / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    for words in ((), ("every",), ("312",), ("-q",), ("all",)):
        assert pythons.main(["--uv", "./uv", *words]) == (0 if words == ("all",) else 2), words
        assert "nothing was tested: write --python 3.12, or all with classifiers" in capsys.readouterr().err
