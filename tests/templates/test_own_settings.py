"""A child's .env means the same to every script and to its container, whatever stands in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet

VALUES = {
    "X=hello world": "hello world",
    "X=pa$$w0rd": "pa$$w0rd",
    "X=`id` $(id) ${HOME}": "`id` $(id) ${HOME}",
    "X=a'b\"c\\d": "a'b\"c\\d",
    "X='two words '": "two words ",
    'X="it\'s # whole"': "it's # whole",
    'X="quoted"  # why': "quoted",
    "X=64  # per GPU # or not": "64",
    "X=#ffffff": "#ffffff",
    "X=a#b": "a#b",
    "X=": "",
    "X=''": "",
    "X= # nothing": "",
    "X=a=b=c": "a=b=c",
    "export X=exported": "exported",
    "  X=  spaces around  ": "spaces around",
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


@pytest.mark.slow
def test_a_value_is_taken_as_it_stands(child: Path) -> None:
    """Each line under a name of its own; the file starts with a byte order mark and ends without a newline."""
    lines = [line.replace("X=", f"X{number}=") for number, line in enumerate(VALUES)]
    options, environment = in_container(child, "\ufeff" + "\n".join(lines))
    names = [f"X{number}" for number in range(len(VALUES))]
    assert dict(zip(VALUES, (environment.get(name) for name in names), strict=True)) == VALUES
    assert [name for name in names if f"--env {name} " not in options] == [], "a container does not get them"


@pytest.mark.slow
def test_every_name_reaches_the_container_and_no_value_its_command_line(child: Path) -> None:
    options, environment = in_container(child, "FIRST=s3cret-1\nMY_TOKEN=s3cret-2\nDEVICE=cpu\n")
    assert [name for name in ("FIRST", "MY_TOKEN", "DEVICE") if f"--env {name} " not in options] == []
    assert "s3cret" not in options
    assert (environment["FIRST"], environment["MY_TOKEN"], environment["DEVICE"]) == ("s3cret-1", "s3cret-2", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("given", ["caller", ""])
def test_the_caller_wins(child: Path, given: str) -> None:
    options, environment = in_container(child, "X=file\nIMAGE=from-file:1\n", X=given)
    assert environment["X"] == given
    assert "from-file:1" in options, "IMAGE of .env is not the image that is run"


@pytest.mark.slow
def test_of_two_lines_the_last_one_holds_as_docker_and_dotenv_have_it(child: Path) -> None:
    _, environment = in_container(child, "X=first\nY=1\nX=last\n")
    assert environment["X"] == "last"
    assert in_container(child, "X=first\nX=last\n", X="caller")[1]["X"] == "caller"


OWN_NAMES = ["name", "value", "line", "image", "settings", "place", "options", "stage", "script", "built", "weights"]


@pytest.mark.slow
def test_a_name_that_the_scripts_use_themselves_disturbs_nothing_and_arrives(child: Path) -> None:
    options, environment = in_container(child, "".join(f"{name}=own\n" for name in OWN_NAMES) + "LATER=2\n")
    assert {name: environment.get(name) for name in OWN_NAMES} == dict.fromkeys(OWN_NAMES, "own")
    assert environment["LATER"] == "2"
    assert "/topic-finder:dev-test" in options, "a setting is taken for a variable of the scripts"


BASHS_NAMES = [
    *("UID", "EUID", "PPID", "GROUPS", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "FUNCNAME", "DIRSTACK", "HISTCMD"),
    *("EPOCHSECONDS", "BASHPID", "BASH_VERSINFO", "BASH_COMPAT", "SHELLOPTS", "OPTIND", "HOSTNAME", "PIPESTATUS"),
    *("GLOBIGNORE", "EXECIGNORE", "CDPATH", "POSIXLY_CORRECT", "TMOUT", "BASH_ENV"),
]


@pytest.mark.slow
def test_a_name_that_means_something_to_bash_means_nothing_here_and_arrives(child: Path) -> None:
    """Compose's files often say who the user is; bash changes some values, refuses others and obeys the rest."""
    options, environment = in_container(child, "".join(f"{name}=*\n" for name in BASHS_NAMES) + "GID=4712\n")
    assert {name: environment.get(name) for name in BASHS_NAMES} == dict.fromkeys(BASHS_NAMES, "*")
    assert environment["GID"] == "4712"
    assert "--env UID " in options


def test_a_value_is_bytes_whatever_their_encoding(child: Path) -> None:
    (child / ".env").write_bytes(b"X=gr\xf6\xdfer\nY='\xe4 # b' # why\nZ=1\n")
    script = "source scripts/lib.sh; [[ ${X}${Y} == $'gr\\xf6\\xdfer\\xe4 # b' ]] && printenv Z LC_ALL"
    done = run(child, script, LC_ALL="C.UTF-8")
    assert (done.stdout, done.stderr) == ("1\nC.UTF-8\n", "")


@pytest.mark.parametrize("what", ["link", "locked"])
def test_settings_that_cannot_be_read_are_told_and_not_passed_over(child: Path, what: str) -> None:
    """Root reads whatever it likes, so somebody else runs the script, from a folder that all can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(child / "scripts", folder / "scripts")
        (folder / ".env").symlink_to("/nowhere/.env" if what == "link" else folder / "own")
        (folder / "own").touch(0)
        other = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*other, "bash", "-c", "source scripts/lib.sh"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = "is a link that leads nowhere: /nowhere/.env" if what == "link" else "cannot be read by "
    assert (done.returncode, done.stderr.startswith(f"bash: .env {said}")) == (2, True), done.stderr


@pytest.mark.slow
def test_a_setting_does_not_stand_in_for_the_build(child: Path) -> None:
    """`built` is what lib.sh notes of a build, whatever the environment says."""
    (child / ".env").write_text("built=test\n")
    path = f"{child.parent / 'bin'}:{os.environ['PATH']}"
    done = run(child, "source scripts/lib.sh; RUN_IN=docker; in_project test true", PATH=path, built="test")
    assert "building registry.example.com/ml/topic-finder:dev-test" in done.stderr


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
        ("2X=1\n", ".env, line 1: write NAME=VALUE"),
        ("A-B=1\n", ".env, line 1: write NAME=VALUE"),
        ("X = 1\n", ".env, line 1: write NAME=VALUE"),
        ("PATH=/opt/bin\n", ".env, line 1: PATH"),
        ("IFS=,\n", ".env, line 1: IFS"),
        ('A=1\nKEY="-----BEGIN KEY-----\nMIIE=\n-----END KEY-----"\n', ".env, line 2: the quote is not closed"),
        ("KEY='two\nlines'\n", ".env, line 1: the quote is not closed"),
    ],
)
def test_what_is_not_a_setting_is_named_with_its_line(child: Path, text: str, message: str) -> None:
    (child / ".env").write_text(text)
    done = run(child, "scripts/smoke")
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
