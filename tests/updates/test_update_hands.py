"""What owners do by hand to answers, modes, links and repositories inside theirs: kept, or refused in one true line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_repo_runtime.update import write_back
from gpu_repo_runtime.update.git_calls import UpdateError

from tests.updates.copiers import ROOT
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Template, make_child, write_files

ANSWERS = ".copier-answers.yml"
PACKAGE = "package_name: {type: str, default: first}\n"
MODULE = {"src/{{ package_name }}/device.py.jinja": "device = 1\n", "run.jinja": "{{ package_name }}\n"}


def following(template: Template, folder: Path, settings: str = "", **second: str) -> Child:
    """Return a child of version 1.0.0; 2.0.0 is released, with `second` besides."""
    template.release("v1.0.0", {"a.txt": TEN_LINES}, settings)
    child = make_child(template, folder / "child")
    template.release("v2.0.0", {"a.txt": "fixed\n" + TEN_LINES, **second}, settings)
    return child


def test_comments_of_the_owner_in_the_answers_stay(template: Template, program: Program, tmp_path: Path) -> None:
    child = following(template, tmp_path, "line: {type: str, default: 'a # b'}\nother: {type: str, default: c}\n")
    text = child.read(ANSWERS).replace("line:", "# above line\nline:").replace("other: c", "other: c  # why c")
    child.edit({ANSWERS: f"# at the top\n{text}# at the end\n"})
    assert program(child) == 0, program.out + program.err
    rows = child.read(ANSWERS).splitlines()
    assert rows[0] == "# at the top"
    assert rows[rows.index("# above line") + 1] == "line: 'a # b'"
    assert rows[rows.index("# why c") + 1] == "other: c"
    assert rows[-1] == "# at the end"
    child.commit("Updated")
    template.release("v3.0.0", {"a.txt": "3\n"}, "line: {type: str, default: a}\n")
    assert program(child) == 0, program.out + program.err
    comments = [row for row in child.read(ANSWERS).splitlines() if row.startswith("#")]
    assert comments == ["# at the top", "# above line", "# why c", "# at the end"], "one is lost, or there twice"


@pytest.mark.parametrize(
    ("settings", "was", "now"),
    [
        ("driver: {type: str, default: '580'}\n", "'580'", "580"),
        ("cluster: {type: bool, default: true}\n", "true", "'yes'"),
    ],
)
def test_an_answer_that_is_written_in_another_way_is_the_same(
    template: Template, program: Program, tmp_path: Path, settings: str, was: str, now: str
) -> None:
    child = following(template, tmp_path, settings)
    child.edit({ANSWERS: child.read(ANSWERS).replace(was, now)})
    assert now in child.read(ANSWERS)
    assert program(child) == 0, program.out + program.err


@pytest.mark.parametrize("name", ["HEAD", "main"])
def test_a_branch_in_the_answers_is_no_version(template: Template, program: Program, tmp_path: Path, name: str) -> None:
    """It would say that the child has what the template has today: every fix would be missed without a word."""
    child = following(template, tmp_path)
    child.edit({ANSWERS: child.read(ANSWERS).replace("_commit: v1.0.0", f"_commit: {name}")})
    assert program(child) == 1
    assert f"the template has no version {name} any more" in program.err


def unkept(child: Child) -> None:
    child.git("rm", "--quiet", "--cached", ANSWERS)
    child.edit({".gitignore": f"{ANSWERS}\n"})


def linked(child: Child) -> None:
    child.git("mv", ANSWERS, "answers.yml")
    (child.path / ANSWERS).symlink_to("answers.yml")
    child.commit("A link")


@pytest.mark.parametrize(("change", "told"), [(unkept, "is not in git: git add --force"), (linked, "is a link")])
def test_answers_that_an_update_cannot_keep_are_named(
    template: Template, program: Program, tmp_path: Path, change: Callable[[Child], None], told: str
) -> None:
    child = following(template, tmp_path)
    change(child)
    assert program(child) == 1
    assert f"update: {ANSWERS} {told}" in program.err
    assert child.status() == {}


def test_a_new_program_is_named_where_git_does_not_look_at_modes(
    template: Template, program: Program, tmp_path: Path
) -> None:
    child = following(template, tmp_path)
    template.release("v3.0.0", {"a.txt": TEN_LINES, "run": "#!/bin/sh\n"})
    (template.path / "run").chmod(0o755)
    template.git("commit", "--quiet", "--all", "--amend", "--message=v3.0.0")
    template.git("tag", "--force", "v3.0.0")
    child.git("config", "core.fileMode", "false")
    assert program(child) == 0, program.err
    assert "added      run: git does not look at modes here: git add --chmod=+x run" in program.out


def test_the_same_text_with_another_mode_becomes_the_templates(
    template: Template, program: Program, tmp_path: Path
) -> None:
    child = following(template, tmp_path, run="#!/bin/sh\n")
    (template.path / "run").chmod(0o755)
    template.git("commit", "--quiet", "--all", "--amend", "--message=v2.0.0")
    template.git("tag", "--force", "v2.0.0")
    child.edit({"run": "#!/bin/sh\n"})
    assert program(child) == 0, program.out
    assert "updated    run: it can be executed now" in program.out
    assert os.access(child.path / "run", os.X_OK)


def test_nothing_is_written_into_a_repository_that_git_ignores(
    template: Template, program: Program, tmp_path: Path
) -> None:
    child = following(template, tmp_path, **{"inner/new.txt": "new\n"})
    child.edit({".gitignore": "inner/\n"})
    write_files(child.path, {"inner/own.txt": "own\n"})
    subprocess.run(["git", "init", "--quiet"], cwd=child.path / "inner", check=True)
    assert program(child) == 1
    assert "inner is a repository of its own" in program.err
    assert not child.has("inner/new.txt")


def test_a_link_in_the_way_is_called_one(template: Template, program: Program, tmp_path: Path) -> None:
    child = following(template, tmp_path, **{"conf/new.txt": "new\n"})
    (child.path / "own").mkdir()
    (child.path / "conf").symlink_to("own")
    child.edit({"own/x.txt": "x\n"})
    assert program(child) == 4
    assert "you have a link at conf: the template's file is left out" in program.out


def behind_a_link(child: Child) -> str:
    (child.path / "src").rename(child.path / "code")
    (child.path / "src").symlink_to("code")
    return "src is a link, and an update moves nothing through it"


def with_a_submodule(child: Child) -> str:
    child.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(child.path), "src/first/inner")
    return "src/first/inner is a submodule, and an update moves nothing through it"


@pytest.mark.parametrize("change", [behind_a_link, with_a_submodule])
def test_a_package_that_cannot_move_whole_is_refused(
    template: Template, program: Program, tmp_path: Path, change: Callable[[Child], str]
) -> None:
    template.release("v1.0.0", MODULE, PACKAGE)
    child = make_child(template, tmp_path / "child")
    told = change(child)
    child.commit("By hand")
    assert program(child, "--answer", "package_name=second") == 1, program.out
    assert told in program.err
    assert child.status() == {}


def test_what_does_not_move_with_a_package_is_named(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", MODULE, PACKAGE)
    child = make_child(template, tmp_path / "child")
    child.edit({".gitignore": "*.dat\n"})
    write_files(child.path, {"src/first/own.dat": "own\n", "other/own.dat": "own\n"})
    assert program(child, "--answer", "package_name=second") == 4, program.out
    assert "at risk    src/first/own.dat: git ignores it, so it stays here: move it yourself" in program.out
    assert child.read("src/second/device.py") == "device = 1\n"
    assert "other/own.dat" not in program.out


def test_a_package_that_is_elsewhere_is_not_said_to_have_moved(
    template: Template, program: Program, tmp_path: Path
) -> None:
    template.release("v1.0.0", MODULE, PACKAGE)
    child = make_child(template, tmp_path / "child")
    child.git("mv", "src/first", "first")
    child.commit("By hand")
    assert program(child, "--answer", "package_name=second") == 4, program.out
    assert "at risk    src/first/: it is not here, so nothing was moved" in program.out


def test_what_a_person_set_up_for_gits_log_hides_no_release(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = following(template, tmp_path, VERSION="2.0.0\n")
    template.git("tag", "--delete", "v2.0.0")
    (tmp_path / "person").write_text("[diff]\norderFile = /no/such/file\n[log]\nshowSignature = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "person"))
    assert program(child) == 0, program.err
    assert "v1.0.0 -> v2.0.0" in program.out


def test_an_empty_name_of_an_author_stops_nothing(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = following(template, tmp_path)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "")
    assert program(child) == 0, program.err


def test_a_file_that_can_neither_be_replaced_nor_touched_takes_everything_back(
    tmp_path: Path, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that stopped the update is as it was; putting it back would fail for the same reason."""
    child = Child(tmp_path / "child", template.copier)
    write_files(child.path, {"a.txt": "old\n", "b.txt": "old\n"})
    child.git("init", "--quiet")
    child.commit()
    write_files(tmp_path / "tree", {"a.txt": "new\n", "b.txt": "new\n"})
    replace = os.replace

    def immutable(source: Path, target: Path) -> None:
        if Path(target).name == "b.txt":
            raise PermissionError(1, "Operation not permitted", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", immutable)
    journal = write_back.Journal("v1.0.0", "v2.0.0", 0, "", ["a.txt", "b.txt"], "")
    with pytest.raises(UpdateError, match="and was taken back"):
        write_back.write(child.path, tmp_path / "tree", journal)
    assert child.status() == {}
    assert not write_back.journal_folder(child.path).exists()


def test_ctrl_c_before_it_began_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "copier.py").write_text("raise KeyboardInterrupt\n")
    command = [sys.executable, "-m", "gpu_repo_runtime.update"]
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "runtime" / "src")])
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "update: stopped before it began, nothing was changed\n")


PROGRAMS = ["hooks/safe_update.py", "hooks/fleet.py", "hooks/release_check.py", "tools/new.py"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_while_a_program_of_ours_imports_is_one_line(program: str, tmp_path: Path) -> None:
    (tmp_path / "copier").mkdir()
    (tmp_path / "copier" / "__init__.py").write_text("raise KeyboardInterrupt\n")
    command, paths = [sys.executable, str(ROOT / program), "--help"], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "stopped by Ctrl-C\n")
