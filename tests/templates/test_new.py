"""`make new`: all or nothing, and one clear line on error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_calls import without_password
from new import shared_address

from tests.conftest import ROOT, git
from tests.sampling import every, sampled
from tests.updates.copiers import run_program


def new(target: Path | str, *answers: str, template: Path = ROOT) -> subprocess.CompletedProcess[str]:
    given = [part for answer in answers for part in ("--answer", answer)]
    return run_program("new", [str(target), "--template", str(template), *given], Path.cwd(), dict(os.environ))


def refused(done: subprocess.CompletedProcess[str], expected: str) -> None:
    assert done.returncode == 1, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, f"more than one line: {done.stderr}"
    assert expected in lines[0], lines[0]


def test_the_repository_is_ready_to_commit_and_a_quoted_answer_keeps_its_spaces(template, tmp_path):
    done = make_new(tmp_path / "child", template, "project_name=child description='Find the topic'")
    assert done.returncode == 0, done.stderr
    assert f"cd {tmp_path / 'child'}" in done.stdout
    assert "description: Find the topic\n" in (tmp_path / "child" / ".copier-answers.yml").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["child"], "something else was left"


@pytest.mark.parametrize(
    ("answer", "expected"),
    sampled(
        [
            ("project_name='My Project'", "for example my-project"),
            ("nmae=x", "the questions are project_type"),
            ("project_name", "for example project_name=topic-finder"),
            ("framework=torch", "the name is missing: make new TO=... ANSWERS="),
            ("project_name=child description='Find", "a quotation mark is missing"),
            ("project_name=child gpu_driver=570", "cannot be '570': take 580 or 525; nodes with 570 take 525"),
        ],
        every(4),
    ),
)
def test_a_wrong_answer_leaves_nothing(template, tmp_path, answer, expected):
    refused(make_new(tmp_path / "child", template, answer), expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", "is not empty"),
        pytest.param("file", "is a file", marks=pytest.mark.slow),
        pytest.param("no/child", "does not exist: mkdir -p", marks=pytest.mark.slow),
        pytest.param("/proc/self/child", "/proc/self", marks=pytest.mark.slow),  # not even root can write there
    ],
)
def test_a_wrong_folder_is_named_and_left_alone(template, tmp_path, target, expected):
    (tmp_path / "file").write_text("mine")
    refused(new(tmp_path / target, "project_name=child", template=template), expected)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "mine")]


def make_new(target: Path, template: Path, answers: str) -> subprocess.CompletedProcess[str]:
    command = [str(target), "--template", str(template), "--answers", answers]
    return run_program("new", command, Path.cwd(), dict(os.environ))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "offered"),
    [
        ("https://name:token@git.example.com/acme/family.git", "https://git.example.com/acme/family.git"),
        ("git@git.example.com:acme/family.git", "git@git.example.com:acme/family.git"),
        ("/srv/family", ""),
    ],
)
def test_only_an_address_that_others_reach_is_offered_and_no_token(template, tmp_path, origin, offered):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(template), "clone")
    git(clone, "remote", "set-url", "origin", origin)
    assert without_password(shared_address(str(clone))) == offered


def test_an_empty_clone_is_taken(template, tmp_path):
    """As a code host's "new repository" is cloned."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "child")
    git(tmp_path / "child", "remote", "add", "origin", "git@example.com:me/child.git")
    done = make_new(tmp_path / "child", template, "project_name=child")
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "child", "remote", "get-url", "origin").strip() == "git@example.com:me/child.git"
    assert (tmp_path / "child/scripts/test").is_file()


def test_a_folder_inside_a_repository_is_refused(template, tmp_path):
    git(tmp_path, "init", "--quiet")
    refused(new(tmp_path / "child", "project_name=child", template=template), "is inside the git repository")
