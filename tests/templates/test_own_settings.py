"""A child's .env means the same to every script and to its container, whatever stands in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.templates.own import own_copy, run, stand_in

VALUES = {
    "X=hello world": "hello world",
    "X=pa$$w0rd": "pa$$w0rd",
    "X=`id` $(id) ${HOME}": "`id` $(id) ${HOME}",
    "X=a'b\"c\\d": "a'b\"c\\d",
    "X=#ffffff": "#ffffff",
    "X=a#b": "a#b",
    "X=": "",
    "X=a=b=c": "a=b=c",
    "X=  spaces around  ": "  spaces around  ",
    "X=one\r": "one",
    "X=größer 好": "größer 好",
    "# X=comment\n\nX=last line without an end": "last line without an end",
    "X=*": "*",
}

DOCKER = r"""
import os, sys
if sys.argv[1] == "run":
    print(*sys.argv[1:], end=" \n")
    print(*(f"{name}={value}" for name, value in os.environ.items()), sep="\0", end="\0")
"""


@pytest.fixture(scope="module")
def child(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a child whose Docker prints what a container would get: its options and its environment."""
    child = own_copy(render(AnswerSet("library", "plain")), tmp_path_factory.mktemp("settings"))
    stand_in(child, "docker", DOCKER, "python3")  # bash would not show each variable as it got it
    return child


def in_container(child: Path, text: str, **environment: str) -> tuple[str, dict[str, str]]:
    """Return Docker's options and the environment that Docker was called with, for a .env of `text`."""
    (child / ".env").write_bytes(text.encode())
    done = run(child, "scripts/shell true", RUN_IN="docker", **environment)
    assert done.returncode == 0, done.stderr
    options, _, rest = done.stdout.partition("\n")
    return options, dict(item.split("=", 1) for item in rest.split("\0") if item)


def test_a_value_is_what_docker_run_takes_it_for(child: Path) -> None:
    """Each line has another name; the file ends without a newline. No value is on Docker's command line."""
    lines = [line.replace("X=", f"X{number}=") for number, line in enumerate(VALUES)]
    options, environment = in_container(child, "\n".join(lines))
    names = [f"X{number}" for number in range(len(VALUES))]
    assert dict(zip(VALUES, (environment.get(name) for name in names), strict=True)) == VALUES
    assert [name for name in names if f"--env {name} " not in options] == [], "a container does not get them"
    assert "hello" not in options


@pytest.mark.slow
@pytest.mark.parametrize("given", ["caller", ""])
def test_the_caller_wins(child: Path, given: str) -> None:
    options, environment = in_container(child, "X=file\nIMAGE=from-file:1\n", X=given)
    assert environment["X"] == given
    assert "from-file:1" in options, "IMAGE of .env is not the image that is run"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nnot a setting\n", ".env, line 2: write NAME=VALUE"),
        ("export A=1\n", ".env, line 1: write NAME=VALUE"),
        ("A-B=1\n", ".env, line 1: write NAME=VALUE"),
        ("X = 1\n", ".env, line 1: write NAME=VALUE"),
        ("PATH=/opt/bin\n", ".env, line 1: PATH"),
        ('A=1\nKEY="quoted"\n', ".env, line 2: quotes are part of the value"),
        ("A=64 # per GPU\n", ".env, line 1: a comment belongs on a separate line"),
    ],
)
def test_what_is_not_a_setting_is_named_with_its_line(child: Path, text: str, message: str) -> None:
    (child / ".env").write_text(text)
    done = run(child, "scripts/smoke")
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
