"""`make new`: all or nothing, and one clear line on error."""

from __future__ import annotations

import os
import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest
from new import end_of_image, shared_address, wrong_choice

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


@pytest.mark.slow
def test_an_empty_folder_is_taken(template, tmp_path):
    (tmp_path / "child").mkdir()
    assert new(tmp_path / "child", "project_name=child", template=template).returncode == 0


@pytest.mark.parametrize(
    ("answer", "expected"),
    sampled(
        [
            ("project_name=My Project", "for example my-project"),
            ("nmae=x", "the questions are project_type"),
            ("project_name", "for example project_name=topic-finder"),
            ("framework=torch", "the name is missing: make new TO=... ANSWERS="),
        ],
        every(4),
    ),
)
def test_a_wrong_answer_leaves_nothing(template, tmp_path, answer, expected):
    refused(new(tmp_path / "child", answer, template=template), expected)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_left_alone(template, tmp_path):
    (tmp_path / "file").write_text("mine")
    refused(new(tmp_path, "project_name=child", template=template), "is not empty")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_file_is_no_target(template, tmp_path):
    (tmp_path / "file").write_text("mine")
    refused(new(tmp_path / "file", "project_name=child", template=template), "is a file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_a_missing_parent_is_named(template, tmp_path):
    refused(new(tmp_path / "no" / "child", "project_name=child", template=template), "does not exist: make it first")


def test_a_target_that_cannot_be_written_is_named(template):
    # Not even root can write there, so that the test proves the same for everybody.
    refused(new("/proc/self/child", "project_name=child", template=template), "/proc/self")
    assert not os.path.exists("/proc/self/child")


@pytest.mark.slow
def test_a_template_that_is_none_is_named(tmp_path):
    done = new(tmp_path / "child", "project_name=child", template=tmp_path / "nothing")
    refused(done, "does not exist")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_wrong_choice_is_answered_with_the_right_one(template, tmp_path):
    done = new(tmp_path / "child", "project_name=child", "gpu_driver=570", template=template)
    expected = "gpu_driver cannot be '570': take 580 or 525; nodes with 570 take 525"
    refused(done, expected)
    assert done.stderr.strip().endswith(expected), done.stderr


@pytest.mark.parametrize(
    ("question", "given", "choices", "expected"),
    [
        ("gpu_driver", "470", ["580", "525"], "gpu_driver cannot be '470': take 580 or 525"),
        ("project_type", "api", ["service", "batch"], "project_type cannot be 'api': take service or batch"),
    ],
)
def test_a_lower_driver_is_offered_only_where_there_is_one(question, given, choices, expected):
    assert wrong_choice(question, given, choices) == expected


def make_new(target: Path, template: Path, answers: str) -> subprocess.CompletedProcess[str]:
    command = [str(target), "--template", str(template), "--answers", answers]
    return run_program("new", command, Path.cwd(), dict(os.environ))


@pytest.mark.slow
def test_a_missing_quotation_mark_is_named(template, tmp_path):
    done = make_new(tmp_path / "child", template, "project_name=child description='Find")
    refused(done, "a quotation mark is missing")


def clone_from(origin: str, template: Path, folder: Path) -> Path:
    """Return a clone of the template that names another place where it came from."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(template), str(clone)], check=True)
    subprocess.run(["git", "-C", str(clone), "remote", "set-url", "origin", origin], check=True)
    return clone


@pytest.mark.slow
def test_the_address_that_others_reach_is_offered_without_its_token(template, tmp_path):
    clone = clone_from("https://name:token@git.example.com/acme/family.git", template, tmp_path)
    done = new(tmp_path / "child", "project_name=child", template=clone)
    assert done.returncode == 0, done.stderr
    assert "TEMPLATE=https://git.example.com/acme/family.git" in done.stdout
    assert "token" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "offered"), sampled([("git@git.example.com:acme/family.git", True), ("/srv/family", False)], every(2))
)
def test_only_an_address_that_others_reach_is_offered(template, tmp_path, origin, offered):
    assert shared_address(str(clone_from(origin, template, tmp_path))) == (origin if offered else "")


def test_an_image_that_gets_its_last_fixes_soon_is_named(tmp_path, monkeypatch):
    day = date.today() + timedelta(days=20)
    rows = [{"name": "torch-cu12", "state": "maintenance", "end_of_life": day.isoformat()}]
    monkeypatch.setattr("new.catalog", lambda: {"images": rows, "end_of_life_warning_days": 180})
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("ARG BASE_IMAGE=registry.example.com/ml/torch-cu12:2026.11\n")
    [line] = end_of_image(tmp_path)
    assert line.startswith(f"torch-cu12: support ends on {day} (")
    dockerfile.write_text("ARG BASE_IMAGE=registry.example.com/ml/torch-cu13:2026.11\n")
    assert end_of_image(tmp_path) == []


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
