"""What git was told about files here: not to look at them, to leave them out, other line endings, a missing program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.sampling import sampled
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Template, make_child, write_files

FIXED = "fixed\n" + TEN_LINES


def child_of(template: Template, folder: Path, first: dict[str, str], second: dict[str, str]) -> Child:
    """Return a child of version 1.0.0; 2.0.0 is released."""
    template.release("v1.0.0", first)
    child = make_child(template, folder / "child")
    template.release("v2.0.0", second)
    return child


@pytest.mark.parametrize("mark", sampled(["--skip-worktree", "--assume-unchanged"], ["--skip-worktree"]))
@pytest.mark.parametrize("edited", [True, False], ids=["edited", "as committed"])
def test_a_file_that_git_does_not_look_at_stops_the_update_that_changes_it(
    template: Template, program: Program, tmp_path: Path, mark: str, edited: bool
) -> None:
    first = {"a.txt": TEN_LINES, "b.txt": "b\n"}
    child = child_of(template, tmp_path, first, {"a.txt": FIXED, "b.txt": "b\n"})
    child.git("update-index", mark, "a.txt")
    text = TEN_LINES + "mine\n" if edited else TEN_LINES
    write_files(child.path, {"a.txt": text})
    assert program(child) == 1
    assert "the update changes a.txt, which git was told not to look at" in program.err
    assert child.read("a.txt") == text
    undo = f"{mark.replace('--', '--no-')} a.txt"
    assert f"git update-index {undo};" in program.err
    child.git("update-index", *undo.split())
    assert (child.status() != {}) is edited


def test_an_own_file_that_git_does_not_look_at_stops_nothing(
    template: Template, program: Program, tmp_path: Path
) -> None:
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": FIXED})
    child.edit({"local.cfg": "default\n"})
    child.git("update-index", "--skip-worktree", "local.cfg")
    write_files(child.path, {"local.cfg": "mine\n"})
    assert program(child) == 0, program.err
    assert child.read("local.cfg") == "mine\n"
    assert child.read("a.txt") == FIXED


def test_a_sparse_checkout_loses_no_fix(template: Template, program: Program, tmp_path: Path) -> None:
    first = {"in/a.txt": "a\n", "out/b.txt": "b\n"}
    child = child_of(template, tmp_path, first, first | {"out/b.txt": "2\n"})
    child.git("sparse-checkout", "set", "--cone", "in")
    assert program(child) == 1
    assert "sparse checkout without out/b.txt" in program.err
    child.git("sparse-checkout", "disable")
    assert program(child) == 0, program.err
    assert child.read("out/b.txt") == "2\n"


def test_files_that_are_here_in_spite_of_sparse_patterns_are_not_deleted(
    template: Template, program: Program, tmp_path: Path
) -> None:
    first = {"in/a.txt": "a\n", "out/b.txt": "b\n"}
    child = child_of(template, tmp_path, first, first | {"out/b.txt": "2\n", "out/c.txt": "c\n"})
    child.git("sparse-checkout", "set", "--cone", "in")
    write_files(child.path, {"out/b.txt": "b\n"})
    assert child.status() == {}
    assert program(child, "--diff", "--dry-run") == 0, program.err
    assert "+2\n" in program.out
    assert program.files(child) == {"out/b.txt": "updated", "out/c.txt": "added"}
    assert child.read("out/b.txt") == "2\n"


@pytest.mark.parametrize("how", sampled(["core.autocrlf", "core.eol", ".gitattributes"], ["core.autocrlf"]))
def test_line_endings_of_the_checkout_are_no_edit(
    template: Template, program: Program, tmp_path: Path, how: str
) -> None:
    first = {name: f"{name}\n" + TEN_LINES for name in ("same", "changed", "old", "both")}
    second = {name: "fixed\n" + first[name] for name in ("changed", "both")}
    child = child_of(template, tmp_path, first, second | {"same": first["same"], "new": first["old"]})
    child.edit({"both": first["both"] + "mine\n"})
    if how == ".gitattributes":
        child.edit({".gitattributes": "* text=auto eol=crlf\n"})
    elif how == "core.eol":
        child.edit({".gitattributes": "* text=auto\n"})
        child.git("config", "core.eol", "crlf")
    else:
        child.git("config", how, "true")
    assert program.files(child) == {
        "changed": "updated", "both": "merged", "old": "removed", "new": "added",
    }, how  # fmt: skip
    child.commit("Update")
    for name, text in {"changed": second["changed"], "both": second["both"] + "mine\n"}.items():
        assert child.git("show", f"HEAD:{name}") == text, how


@pytest.mark.slow
def test_a_checkout_with_crlf_stays_one(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"a.bat": TEN_LINES}, {"a.bat": FIXED})
    child.edit({".gitattributes": "*.bat text eol=crlf\n"})
    child.git("rm", "--quiet", "--cached", "a.bat")
    child.git("add", "a.bat")
    (child.path / "a.bat").unlink()
    child.git("checkout", "a.bat")
    assert program(child) == 0, program.err
    assert (child.path / "a.bat").read_bytes() == FIXED.replace("\n", "\r\n").encode()


@pytest.mark.slow
def test_a_filter_whose_program_is_missing_stops_nothing(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": FIXED})
    child.edit({"model.bin": "version https://git-lfs.github.com/spec/v1\n", ".gitattributes": "*.bin filter=lfs\n"})
    for key in ("smudge", "clean", "process"):
        child.git("config", f"filter.lfs.{key}", "no-such-program")
    child.git("config", "filter.lfs.required", "true")
    assert program(child, "--dry-run", "--diff") == 0, program.err
    assert program(child) == 0, program.err
    assert child.read("a.txt") == FIXED


@pytest.mark.slow
def test_what_git_says_is_told_without_its_command_line(template: Template, program: Program, tmp_path: Path) -> None:
    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": FIXED})
    (child.path / ".git" / "worktrees").write_text("no folder\n")
    assert program(child) == 1
    assert program.err.startswith("update: git worktree: ")
    assert "-c" not in program.err
    assert program.err.count("\n") == 1


def test_an_owners_rename_and_link_are_told_as_such(template: Template, program: Program, tmp_path: Path) -> None:
    first = {"scripts/lint": TEN_LINES, "deploy/x": "x\n", "conf": TEN_LINES}
    child = child_of(template, tmp_path, first, {"scripts/lint": FIXED, "deploy/x": "2\n", "conf": FIXED})
    child.git("mv", "scripts/lint", "scripts/check")
    child.git("mv", "deploy", "elsewhere")
    (child.path / "deploy").symlink_to("elsewhere")
    (child.path / "conf").unlink()
    (child.path / "conf").symlink_to("elsewhere/x")
    child.commit("Moved")
    assert program(child) == 4
    said = program.out
    assert "scripts/lint: you moved it to scripts/check: take over by hand what the template changed" in said
    assert "deploy/x: your deploy is a link: fixes to what is behind it do not arrive" in said
    assert "conf: both sides changed it, and your file is a link" in said
    assert (child.path / "conf").is_symlink()


@pytest.mark.slow
def test_a_reader_that_goes_away_changes_nothing(template: Template, tmp_path: Path) -> None:
    from tests.updates.copiers import ROOT

    child = child_of(template, tmp_path, {"a.txt": TEN_LINES}, {"a.txt": FIXED})
    command = f"python -W ignore {ROOT}/hooks/safe_update.py --repository {child.path}"
    for number, (options, target, code) in enumerate(
        [("--dry-run", "> /dev/full", 1), ("--dry-run", "| true", 0), ("", "> /dev/full", 0), ("", "| true", 0)]
    ):
        script = f"PATH={ROOT}/.venv/bin:$PATH; {command} {options} {target}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", script], env=child.copier.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (number, done.stderr)
        told = {1: "the output cannot be written: No space left", 0: ""}[code] if options else ""
        assert told in done.stderr, number
        assert (child.read("a.txt") == FIXED) is not bool(options), number
        if not options:
            assert "_commit: v2.0.0" in child.read(".copier-answers.yml")
            child.git("reset", "--quiet", "--hard")
