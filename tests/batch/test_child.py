"""The batch job of a rendered child: what was written for earlier versions goes on working around its own model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.batch.conftest import RUNTIME, Output

EARLIER = """
import sys
import warnings
from topic_finder.device import choose
from topic_finder.job.cli import main

assert choose("cpu") == "cpu"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    code = main(["run", "--input", sys.argv[1], "--output", sys.argv[2], "--device", "cpu"])
words = [str(warning.message) for warning in told]
assert any("from gpu_repo_runtime.batch.cli import main" in text for text in words), words
sys.exit(code)
"""


@pytest.fixture(scope="module")
def environment(render: Callable[[AnswerSet], Path]) -> dict[str, str]:
    """Return the environment in which Python finds a rendered batch repository and the runtime."""
    source = render(AnswerSet("batch", "plain")) / "src"
    return os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{RUNTIME}", "DEVICE": "cpu"}


@pytest.mark.parametrize(
    "command", [["-m", "topic_finder.job", "run"], ["-m", "gpu_repo_runtime.batch", "topic_finder", "run"]]
)
def test_both_commands_do_the_same(environment: dict[str, str], tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "a.txt").write_text("rain and wind\n")
    options = ["--input", str(tmp_path / "a.txt"), "--output", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, *command, *options], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["text"] for row in Output(tmp_path / "out").rows()] == ["rain and wind"]


def test_tests_of_version_0_2_go_on_working(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("rain and wind\n")
    command = [sys.executable, "-W", "ignore", "-c", EARLIER, str(tmp_path / "a.txt"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_package", "--help"], "job: there is no package no_such_package here: call it where src/ is on"),
        (["--help"], "job: which package holds model.py?"),
        ([], "job: which package holds model.py?"),
    ],
)
def test_a_package_that_is_not_there(environment: dict[str, str], arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (78, 1), done.stderr
    assert done.stderr.startswith(said)
