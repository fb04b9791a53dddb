"""The world around an update: a person's own git settings, owners, unfinished work, monorepos, no git."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime.update import cli

from tests.sampling import sampled
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Template, copy, make_child, write_files

HOSTILE = """
[core]
\thooksPath = {hooks}
\texcludesFile = {hooks}/ignore
\tautocrlf = true
[commit]
\tgpgSign = true
[gpg]
\tprogram = false
[init]
\ttemplateDir = {hooks}/template
[status]
\tshowUntrackedFiles = no
[merge]
\tconflictStyle = diff3
[apply]
\twhitespace = error
[diff]
\tnoprefix = true
\texternal = false
"""


def edited(template: Template, folder: Path) -> Child:
    """Return a child with an edit; version 2.0.0 brings a fix and a file."""
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, folder / "child", edits={"a.txt": TEN_LINES + "mine  \n"})
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES, "new.txt": "n\n"})
    return child


def test_the_settings_of_a_person_change_nothing(template: Template, program: Program, tmp_path: Path) -> None:
    child = edited(template, tmp_path)
    hooks = tmp_path / "hooks"
    write_files(hooks, {"ignore": "*.txt\n", "template/hooks/pre-commit": "#!/bin/sh\nexit 1\n"})
    for name in ("pre-commit", "post-checkout", "reference-transaction"):
        write_files(hooks, {name: "#!/bin/sh\nexit 1\n"})
        (hooks / name).chmod(0o755)
    (hooks / "template/hooks/pre-commit").chmod(0o755)
    settings = Path(os.environ["GIT_CONFIG_GLOBAL"])
    before = settings.read_text()
    settings.write_text(before + HOSTILE.format(hooks=hooks))
    assert program(child) == 0, program.err
    settings.write_text(before)
    assert child.read("a.txt") == "fixed\n" + TEN_LINES + "mine  \n"
    assert child.read("new.txt") == "n\n"


@pytest.mark.slow
def test_settings_that_git_cannot_read_are_named(template: Template, program: Program, tmp_path: Path) -> None:
    child = edited(template, tmp_path)
    Path(os.environ["GIT_CONFIG_GLOBAL"]).write_text("[broken\n")
    assert program(child) == 1
    assert "bad config line 1 in file" in program.err
    assert program.err.count("\n") == 1


def test_an_update_from_inside_a_hook_of_git(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    theirs = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_WORK_TREE": "/nowhere"}
    theirs |= {"GIT_NAMESPACE": "other", "GIT_QUARANTINE_PATH": "/nowhere", "GIT_ICASE_PATHSPECS": "1"}
    theirs |= {"GIT_DEFAULT_HASH": "sha256", "GIT_COMMITTER_DATE": "none", "GIT_EXTERNAL_DIFF": "false"}
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    assert program(child, "--dry-run", "--diff") == 0, program.err
    assert program(child) == 0, program.err


@pytest.mark.slow
def test_a_repository_of_another_user_is_named_with_the_way_out(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = edited(template, tmp_path)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert program(child) == 1
    assert f"git config --global --add safe.directory {child.path}" in program.err
    assert program.err.count("\n") == 1


def merge(child: Child) -> None:
    child.git("branch", "other")
    child.edit({"b.txt": "b\n"})
    child.git("checkout", "--quiet", "other")
    child.edit({"c.txt": "c\n"})
    child.git("merge", "--quiet", "--no-commit", "-")


def rebase(child: Child) -> None:
    child.edit({"b.txt": "b\n"})
    stopped = ["git", "-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "--quiet", "--interactive", "HEAD~1"]
    subprocess.run(stopped, cwd=child.path, env=child.copier.environment(), check=True, capture_output=True)


@pytest.mark.parametrize(("start", "what"), [(merge, "a merge"), (rebase, "a rebase")])
def test_unfinished_work_is_named(
    template: Template, program: Program, tmp_path: Path, start: Callable[[Child], None], what: str
) -> None:
    child = edited(template, tmp_path)
    start(child)
    before = child.status()
    assert program(child) == 1
    assert f"{what} is not finished here" in program.err
    assert child.status() == before


def test_no_git_is_named(template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = edited(template, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program(child) == 1
    assert program.err == "update: git is not installed, or not on the path: install it first\n"


def test_a_folder_without_a_repository_is_named(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    assert copy(template, tmp_path / "child").returncode == 0
    child = Child(tmp_path / "child", template.copier)
    assert program(child) == 1
    assert "not a git repository with a commit" in program.err
    child.git("init", "--quiet")
    assert program(child) == 1
    assert "not a git repository with a commit" in program.err


@pytest.mark.parametrize("folder", sampled(["apps/one", " one "], [" one "]))
def test_a_folder_of_a_monorepo_updates_by_itself(
    template: Template, program: Program, tmp_path: Path, folder: str
) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES, "b.txt": "b\n", "gone.txt": "x\n"})
    whole = Child(tmp_path / "whole", template.copier)
    (whole.path / folder).parent.mkdir(parents=True)
    assert copy(template, whole.path / folder).returncode == 0
    whole.git("init", "--quiet")
    whole.commit("Start")
    whole.edit({f"{folder}/a.txt": "mine\n" + TEN_LINES, "other/work.txt": "w\n"})
    write_files(whole.path, {"other/work.txt": "not committed\n"})
    template.release("v2.0.0", {"a.txt": "theirs\n" + TEN_LINES, "b.txt": "2\n", "new/c.txt": "c\n"})
    one = Child(whole.path / folder, template.copier)
    assert program(one, "--dry-run", "--diff") == 3, program.err
    assert program(one) == 3, program.err
    assert one.read("b.txt") == "2\n"
    assert one.read("new/c.txt") == "c\n"
    assert not one.has("gone.txt")
    assert whole.unmerged() == {f"{folder}/a.txt"}
    assert whole.read("other/work.txt") == "not committed\n"
    assert not (whole.path / "b.txt").exists(), "files of the child at the root of the monorepo"


@pytest.mark.slow
def test_a_shallow_template_is_named(template: Template, program: Program, tmp_path: Path) -> None:
    child = edited(template, tmp_path)
    shallow = tmp_path / "shallow"
    template.git("clone", "--quiet", "--depth=1", "--no-tags", f"file://{template.path}", str(shallow))
    answers = child.read(".copier-answers.yml")
    child.edit({".copier-answers.yml": answers.replace(f"_src_path: {template.path}", f"_src_path: {shallow}")})
    assert program(child) == 1
    assert "it is a shallow clone: git fetch --unshallow there" in program.err


def test_a_folder_that_was_deleted_meanwhile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "argv", ["update"])
    assert cli.main() == 1
    assert capsys.readouterr().err == (
        "update: the folder that this runs in is no longer there: change to the repository\n"
    )
