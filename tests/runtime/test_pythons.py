"""scripts/test --python: which Pythons a library promises, and what is said where one is missing or fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime import pythons

PROJECT = """[project]
name = "a"
classifiers = [
  "Programming Language :: Python :: 3.13",
  "Programming Language :: Python :: 3.9",
  "Programming Language :: Python :: 3 :: Only",
  "Programming Language :: Python :: 3.11",
]
"""
# Stands in for uv: a Python whose version is in `absent` is missing, one in `red` fails its tests.
UV = """#!/usr/bin/env python3
import json, pathlib, sys
words = sys.argv[1:]
told = json.loads(pathlib.Path("uv.json").read_text())
with open("calls", "a") as calls:
    print(json.dumps(words), file=calls)
if words[0] == "venv":
    folder = pathlib.Path(words[-1])
    if folder.name in told["absent"]:
        sys.exit("no interpreter found")
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    code = int(folder.name in told["red"])
    (folder / "bin/python").write_text(f'#!/bin/sh\\necho "$@" >>pytest-calls\\nexit {code}\\n')
    (folder / "bin/python").chmod(0o755)
"""
Test = Callable[..., int]


@pytest.fixture
def test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Test:
    """Return a function that runs the program in a library."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.lock").write_text("x==1 \\\n    --hash=sha256:3\n")
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)

    def run(*words: str, absent: tuple[str, ...] = (), red: tuple[str, ...] = ()) -> int:
        (tmp_path / "uv.json").write_text(json.dumps({"absent": absent, "red": red}))
        return pythons.main(["--uv", str(tmp_path / "uv"), *words])

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "red", "code", "words"),
    [
        ((), (), 0, "Python 3.9: passed, Python 3.11: passed, Python 3.13: passed"),
        (("3.13",), (), 3, "Python 3.11: passed, Python 3.13: not tested"),
        (("3.13",), ("3.9",), 1, "Python 3.9: failed, Python 3.11: passed, Python 3.13: not tested"),
    ],
)
def test_all_are_those_of_the_classifiers_and_a_failure_counts_more_than_a_missing_python(
    test: Test, capsys: pytest.CaptureFixture[str], absent: tuple[str], red: tuple[str], code: int, words: str
) -> None:
    assert test("all", absent=absent, red=red) == code
    assert words in capsys.readouterr().err


def test_options_go_to_pytest_and_the_report_has_the_version(test: Test) -> None:
    assert test("3.12", "-k", "one or two", "-x") == 0
    [call] = Path("pytest-calls").read_text().splitlines()
    assert call.endswith("--ignore=tests/gpu -k one or two -x")
    assert "--junit-xml=build/test-results/python-3.12.xml" in call


def test_what_is_no_version_is_refused_and_said(test: Test, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text("[project]\nname = 'a'\n")
    for words in ((), ("every",), ("312",), ("-q",), ("all",)):
        assert (test(*words), Path("calls").exists()) == (0 if words == ("all",) else 2, False), words
        assert "nothing was tested: write --python 3.12, or all with classifiers" in capsys.readouterr().err
