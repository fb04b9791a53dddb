"""Whatever an owner's file holds, an update loses nothing of it: encodings, line endings, modes, links, own answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.updates.copiers import ROOT
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Template, make_child, write_files

UTF_16 = ("mine\n" + TEN_LINES).encode("utf-16")
LATIN_1 = TEN_LINES.replace("line 2\n", "line 2\ncafé\n").encode("latin-1")


def child_of(template: Template, folder: Path, first: dict[str, str], mine: dict[str, bytes]) -> Child:
    """Return a child of version 1.0.0 with the owner's bytes."""
    template.release("v1.0.0", first)
    child = make_child(template, folder / "child")
    for name, text in mine.items():
        (child.path / name).write_bytes(text)
    child.commit("The owner's")
    return child


def data(child: Child, name: str) -> bytes:
    return (child.path / name).read_bytes()


def test_utf_16_that_the_template_renames_stays(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"old.txt": TEN_LINES}, {"old.txt": UTF_16})
    template.release("v2.0.0", {"new.txt": TEN_LINES})
    assert program(child) == 4
    assert data(child, "old.txt") == UTF_16
    assert child.read("new.txt") == TEN_LINES
    assert "renamed this file to new.txt: your text is binary" in program.out


@pytest.mark.slow
def test_utf_16_that_both_changed_stays_and_is_told(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": UTF_16})
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES})
    assert program(child) == 4
    assert data(child, "a.txt") == UTF_16
    assert "at risk    a.txt: both sides changed it, and it is binary or in UTF-16" in program.out


@pytest.mark.slow
def test_latin_1_is_merged_and_shown_byte_by_byte(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES, "b.txt": TEN_LINES}, {"a.txt": LATIN_1, "b.txt": LATIN_1})
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES, "c.txt": TEN_LINES})
    command = [sys.executable, "-W", "ignore", str(ROOT / "hooks" / "safe_update.py"), "--dry-run", "--diff"]
    done = subprocess.run(
        command, cwd=child.path, env=os.environ | {"PYTHONUTF8": "1"}, capture_output=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert b"\ncaf\xe9\n" in done.stdout.replace(b"\n ", b"\n"), "the difference shows another byte"
    assert program(child) == 4
    assert data(child, "a.txt") == b"fixed\n" + LATIN_1
    assert data(child, "c.txt") == LATIN_1


def test_the_owners_line_endings_stay(template: Template, program: Program, tmp_path: Path) -> None:
    windows = TEN_LINES.replace("\n", "\r\n").encode()
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": windows})
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES})
    assert program(child) == 0, program.out
    assert data(child, "a.txt") == b"fixed\r\n" + windows


def test_a_key_of_the_owner_in_the_answers_stays(template: Template, program: Program, tmp_path: Path) -> None:
    settings = "line: {type: str, default: a}\ngone: {type: str, default: b}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, settings)
    child = make_child(template, tmp_path / "child")
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml") + "team: vision\nlist: [1, é]\n"})
    template.release("v2.0.0", {"a.txt": "b\n"}, "line: {type: str, default: a}\n")
    assert program(child) == 0, program.err
    answers = child.read(".copier-answers.yml")
    assert "team: vision\n" in answers
    assert "é" in answers
    assert "gone" not in answers, "the answer to a question that went is not the owner's"
    assert "_commit: v2.0.0\n" in answers


def make_program(template: Template, name: str, version: str) -> None:
    """Release the same files once more, with one of them a program."""
    (template.path / name).chmod(0o755)
    template.commit(version)
    template.git("tag", version)


@pytest.mark.slow
def test_a_change_of_the_mode_alone_is_told(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {"run": "#!/bin/sh\n", "mine": "#!/bin/sh\n"})
    child = make_child(template, tmp_path / "child")
    (child.path / "mine").chmod(0o755)
    child.commit("The owner's mode")
    make_program(template, "run", "v2.0.0")
    assert program(child) == 0
    assert "updated    run: it can be executed now" in program.out
    assert "kept       mine" in program.out
    assert os.access(child.path / "run", os.X_OK)
    assert os.access(child.path / "mine", os.X_OK)


def test_an_edit_stays_where_the_template_changed_the_mode(
    template: Template, program: Program, tmp_path: Path
) -> None:
    child = child_of(template, tmp_path, {"run": TEN_LINES}, {"run": TEN_LINES.encode() + b"mine\n"})
    make_program(template, "run", "v2.0.0")
    assert program(child) == 0
    assert "merged     run: it can be executed now" in program.out
    assert data(child, "run") == TEN_LINES.encode() + b"mine\n"


@pytest.mark.slow
def test_an_added_file_that_git_ignores_is_told(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {".gitignore.jinja": "build/\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {".gitignore.jinja": "build/\n", "build/lib/a.txt": "a\n"})
    assert program(child) == 0
    assert "added      build/lib/a.txt: git ignores it here: git add --force build/lib/a.txt" in program.out
    assert child.read("build/lib/a.txt") == "a\n"


@pytest.mark.parametrize(
    ("mine", "brought"), [({"conf": "mine\n"}, "conf/a.txt"), ({"conf/mine.txt": "mine\n"}, "conf")]
)
def test_a_file_of_the_owner_where_a_folder_comes_stays(
    template: Template, program: Program, tmp_path: Path, mine: dict[str, str], brought: str
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child", edits=mine)
    template.release("v2.0.0", {"a.txt": "b\n", brought: "the template's\n"})
    assert program(child) == 4
    assert child.read("a.txt") == "b\n"
    assert child.read(next(iter(mine))) == "mine\n"
    assert "the template's file is left out" in program.out


@pytest.mark.parametrize(("folder", "brought"), [("conf", "conf/a.txt"), ("conf/deep", "conf/deep")])
def test_nothing_is_written_into_a_submodule_of_the_owner(
    template: Template, program: Program, tmp_path: Path, folder: str, brought: str
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    inner = Child(child.path / folder, template.copier)
    write_files(inner.path, {"mine.txt": "mine\n"})
    inner.git("init", "--quiet")
    inner.commit("Another repository")
    child.commit("A submodule")
    template.release("v2.0.0", {"a.txt": "b\n", brought: "the template's\n"})
    assert program(child) == 4, program.err
    assert f"{brought}: you have a submodule at {folder}: the template's file is left out" in program.out
    assert inner.status() == {}


@pytest.mark.slow
def test_a_file_that_became_a_link_of_the_owner_stays_one(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child")
    write_files(child.path, {"real.txt": "mine\n"})
    (child.path / "a.txt").unlink()
    (child.path / "a.txt").symlink_to("real.txt")
    child.commit("A link")
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES})
    assert program(child) == 4
    assert (child.path / "a.txt").is_symlink()
    assert child.read("real.txt") == "mine\n", "the update wrote through the link"


def test_names_of_files_of_any_letters(template: Template, program: Program, tmp_path: Path) -> None:
    names = ("with space.txt", "ümlaut.txt", "-dash.txt", "quote'\".txt")
    template.release("v1.0.0", dict.fromkeys(names, TEN_LINES))
    child = make_child(template, tmp_path / "child", edits=dict.fromkeys(names[:2], TEN_LINES + "mine\n"))
    template.release("v2.0.0", dict.fromkeys(names, "fixed\n" + TEN_LINES))
    assert program(child) == 0, program.err
    for name in names:
        assert child.read(name) == "fixed\n" + TEN_LINES + ("mine\n" if name in names[:2] else "")
