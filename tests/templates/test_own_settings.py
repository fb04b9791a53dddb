"""A child's .env means the same to every script and to its container, whatever stands in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet

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
    folder = tmp_path_factory.mktemp("settings") / "child"
    shutil.copytree(render(AnswerSet("library", "plain")), folder)
    programs = folder.parent / "bin"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(f"#!/usr/bin/env python3\n{DOCKER}")  # bash would not show each variable as it got it
    docker.chmod(0o755)
    return folder


def in_container(child: Path, text: str, **environment: str) -> tuple[str, dict[str, str]]:
    """Return Docker's options and the environment that Docker was called with, for a .env of `text`."""
    (child / ".env").write_bytes(text.encode())
    path = f"{child.parent / 'bin'}:{os.environ['PATH']}"
    done = run(child, "source scripts/lib.sh; RUN_IN=docker; in_project test true", PATH=path, **environment)
    assert done.returncode == 0, done.stderr
    options, _, rest = done.stdout.partition("\n")
    return options, dict(item.split("=", 1) for item in rest.split("\0") if item)


def run(child: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **environment}
    return subprocess.run(
        ["bash", "-c", script], cwd=child, env=env, capture_output=True, encoding="utf-8", check=False
    )


def test_a_value_is_what_docker_run_takes_it_for(child: Path) -> None:
    """Each line has another name; the file ends without a newline."""
    lines = [line.replace("X=", f"X{number}=") for number, line in enumerate(VALUES)]
    options, environment = in_container(child, "\n".join(lines))
    names = [f"X{number}" for number in range(len(VALUES))]
    assert dict(zip(VALUES, (environment.get(name) for name in names), strict=True)) == VALUES
    assert [name for name in names if f"--env {name} " not in options] == [], "a container does not get them"


@pytest.mark.slow
def test_every_name_reaches_the_container_and_no_value_its_command_line(child: Path) -> None:
    options, environment = in_container(child, "DEVICE=earlier\nFIRST=s3cret-1\nMY_TOKEN=s3cret-2\nDEVICE=cpu\n")
    assert [name for name in ("FIRST", "MY_TOKEN", "DEVICE") if f"--env {name} " not in options] == []
    assert "s3cret" not in options
    assert (environment["FIRST"], environment["MY_TOKEN"], environment["DEVICE"]) == ("s3cret-1", "s3cret-2", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("given", ["caller", ""])
def test_the_caller_wins(child: Path, given: str) -> None:
    options, environment = in_container(child, "X=file\nIMAGE=from-file:1\n", X=given)
    assert environment["X"] == given
    assert "from-file:1" in options, "IMAGE of .env is not the image that is run"


OWN_NAMES = ["name", "names", "settings", "image", "stage", "built", "UID", "RANDOM", "SECONDS", "LINENO", "GROUPS"]


@pytest.mark.slow
def test_a_name_that_the_scripts_or_bash_use_disturbs_nothing_and_arrives(child: Path) -> None:
    """Compose's files often say who the user is, and bash refuses to set UID."""
    options, environment = in_container(child, "".join(f"{name}=7\n" for name in OWN_NAMES) + "GID=4712\nALONE\n")
    assert {name: environment.get(name) for name in OWN_NAMES} == dict.fromkeys(OWN_NAMES, "7")
    assert environment["GID"] == "4712"
    assert [name for name in ("UID", "ALONE") if f"--env {name} " not in options] == []
    assert "/topic-finder:dev-test" in options, "a setting is taken for a variable of the scripts"


def test_a_value_is_bytes_whatever_their_encoding(child: Path) -> None:
    (child / ".env").write_bytes(b"X=gr\xf6\xdfer\nZ=1\n")
    done = run(child, "source scripts/lib.sh; [[ $X == $'gr\\xf6\\xdfer' ]] && printenv Z LC_ALL", LC_ALL="C.UTF-8")
    assert (done.stdout, done.stderr) == ("1\nC.UTF-8\n", "")


def test_a_file_that_cannot_be_read_is_an_error(child: Path) -> None:
    (child / ".env").unlink(missing_ok=True)
    (child / ".env").symlink_to("/nowhere/.env")
    done = run(child, "scripts/smoke")
    (child / ".env").unlink()
    assert (done.returncode, ".env: No such file" in done.stderr) == (1, True), done.stderr


def test_a_pipe_is_read_as_a_file_is(child: Path) -> None:
    """Password managers let .env be a pipe."""
    (child / ".env").unlink(missing_ok=True)
    os.mkfifo(child / ".env")
    writer = subprocess.Popen(["bash", "-c", "echo FROM_PIPE=1 >.env"], cwd=child)
    try:
        done = run(child, "source scripts/lib.sh; printenv FROM_PIPE")
        assert done.stdout == "1\n", done.stderr
    finally:
        writer.kill()
        writer.wait()
        (child / ".env").unlink()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nnot a setting\n", ".env, line 2: write NAME=VALUE"),
        ("export A=1\n", ".env, line 1: write NAME=VALUE"),
        ("A-B=1\n", ".env, line 1: write NAME=VALUE"),
        ("X = 1\n", ".env, line 1: write NAME=VALUE"),
        ("PATH=/opt/bin\n", ".env, line 1: PATH"),
        ("GLOBIGNORE=*\n", ".env, line 1: GLOBIGNORE"),
        ('A=1\nKEY="quoted"\n', ".env, line 2: quotes are part of the value"),
        ("A=64 # per GPU\n", ".env, line 1: a comment belongs on a separate line"),
    ],
)
def test_what_is_not_a_setting_is_named_with_its_line(child: Path, text: str, message: str) -> None:
    (child / ".env").write_text(text)
    done = run(child, "scripts/smoke")
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
