"""The safe update of one repository: what it says, what it keeps, and that an error changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime.update import write_back

from tests.sampling import every, sampled
from tests.updates.program import Program
from tests.updates.tiny import MARKER, TEN_LINES, Child, Template, make_child, write_files

EDITED = TEN_LINES + "owner's line\n"


def test_every_file_is_told_and_a_dry_run_says_the_same(template: Template, tmp_path: Path, program: Program) -> None:
    names = ("updated", "kept", "merged", "conflict", "dropped", "gone", "opted-out")
    template.release("v1.0.0", dict.fromkeys(names, TEN_LINES))
    child = make_child(template, tmp_path / "child")
    child.edit(
        {"kept": EDITED, "merged": EDITED, "conflict": "mine\n" + TEN_LINES, "dropped": EDITED, "opted-out": None}
    )
    fixed = "fixed\n" + TEN_LINES
    changed = {name: fixed for name in ("updated", "merged", "conflict", "opted-out")}
    template.release("v2.0.0", {"kept": TEN_LINES, "added": "new\n", **changed})
    expected = {
        "updated": "updated", "kept": "kept", "merged": "merged", "conflict": "conflict", "dropped": "at risk",
        "gone": "removed", "added": "added", "opted-out": "opted out",
    }  # fmt: skip
    assert program.files(child, "--dry-run") == expected
    assert child.status() == {}
    assert program.files(child) == expected
    assert program.out.count('"code": 4') == 1
    assert child.unmerged() == {"conflict"}
    assert child.read("dropped") == EDITED
    assert child.read("merged") == "fixed\n" + EDITED
    assert "mine" in child.read("conflict")
    assert child.git("worktree", "list").count("\n") == 1, "the scratch work tree is left behind"


def test_edit_of_a_renamed_file_moves_to_the_new_name(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"old.txt": TEN_LINES, "other.txt": "x\n"})
    child = make_child(template, tmp_path / "child", edits={"old.txt": EDITED})
    template.release("v2.0.0", {"sub/new.txt": TEN_LINES.replace("line 2\n", "line two\n"), "other.txt": "x\n"})
    assert program(child) == 4
    assert "at risk    old.txt: the template renamed this file: your edit is in sub/new.txt" in program.out
    assert child.read("sub/new.txt") == EDITED.replace("line 2\n", "line two\n")
    assert not child.has("old.txt")


@pytest.mark.slow
def test_edit_that_collides_in_the_renamed_file_is_marked(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"old.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"old.txt": TEN_LINES.replace("line 2\n", "mine\n")})
    template.release("v2.0.0", {"new.txt": TEN_LINES.replace("line 2\n", "theirs\n")})
    assert program(child) == 4
    assert child.unmerged() == {"new.txt"}
    assert {"mine", "theirs"} <= set(child.read("new.txt").splitlines())


def test_edit_of_a_file_that_an_answer_switches_off_stays(template: Template, tmp_path: Path, program: Program) -> None:
    settings = "deploy: {type: bool, default: true}\n"
    settings += "_exclude: ['{% if not deploy %}deploy.txt{% endif %}', copier.yml, .git]\n"
    template.release("v1.0.0", {"deploy.txt": TEN_LINES}, settings)
    child = make_child(template, tmp_path / "child", edits={"deploy.txt": EDITED})
    assert program(child, "--answer", "deploy=false") == 4
    assert child.read("deploy.txt") == EDITED


@pytest.mark.parametrize("mine", ["own one\nown two\n", TEN_LINES])
def test_own_file_where_the_template_adds_one_is_never_overwritten(
    template: Template, tmp_path: Path, program: Program, mine: str
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child", edits={"new.txt": mine})
    template.release("v2.0.0", {"a.txt": "a\n", "new.txt": "the template's\n"})
    assert program(child) in (3, 4)
    assert set(mine.splitlines()) <= set(child.read("new.txt").splitlines())


def test_binary_file_of_the_owner_stays(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"a.bin": "\0one"})
    child = make_child(template, tmp_path / "child", edits={"a.bin": "\0mine"})
    template.release("v2.0.0", {"a.bin": "\0two"})
    assert program(child) in (3, 4)
    assert child.read("a.bin") == "\0mine"


@pytest.mark.slow
def test_ignored_file_in_the_way_stops_the_update(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {".gitignore.jinja": ".env\n"})
    child = make_child(template, tmp_path / "child")
    write_files(child.path, {".env": "SECRET=1\n"})
    template.release("v2.0.0", {".gitignore.jinja": ".env\n", ".env": "SECRET=\n"})
    assert program(child) == 1
    assert "brings .env, which is here and not in git" in program.err
    assert child.read(".env") == "SECRET=1\n"
    assert child.status() == {}


def test_nothing_to_do_exits_0(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    assert program(child) == 0
    assert program.out == "nothing to do: v1.0.0 is the newest version\n"


def test_changelog_between_the_versions_and_the_diff_are_shown(
    template: Template, tmp_path: Path, program: Program
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"}, "_exclude: [copier.yml, CHANGELOG.md, .git]\n")
    child = make_child(template, tmp_path / "child")
    log = "# Changes\n\n## 3.0.0\n\nlater\n\n## 2.0.0\n\nA fix.\n\n## 1.0.0\n\nfirst\n"
    template.release("v2.0.0", {"a.txt": "b\n", "CHANGELOG.md": log}, "_exclude: [copier.yml, CHANGELOG.md, .git]\n")
    assert program(child, "--dry-run", "--diff") == 0
    assert "A fix." in program.out
    assert "later" not in program.out
    assert "first" not in program.out
    assert "-a\n+b\n" in program.out


def break_dirty(template: Template, child: Child) -> None:
    write_files(child.path, {"untracked": "x\n"})


def break_answers(template: Template, child: Child) -> None:
    child.edit({".copier-answers.yml": f"{MARKER}before\n_commit: v1.0.0\n=======\n"})


def break_missing_answers(template: Template, child: Child) -> None:
    child.edit({".copier-answers.yml": None})


def break_commit(template: Template, child: Child) -> None:
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml").replace("_commit", "commit")})


def break_tag(template: Template, child: Child) -> None:
    template.git("tag", "--delete", "v1.0.0")


def break_source(template: Template, child: Child) -> None:
    template.path.rename(template.path.with_name("elsewhere"))


def break_relative_source(template: Template, child: Child) -> None:
    """As `copier copy . ../child` in the template's folder leaves it."""
    answers = child.read(".copier-answers.yml")
    child.edit({".copier-answers.yml": re.sub(r"(?m)^_src_path: .*$", "_src_path: .", answers)})


def break_template(template: Template, child: Child) -> None:
    template.release("v2.1.0", {"a.txt.jinja": "{{ nonsense | nonsense }}\n"})


def break_trust(template: Template, child: Child) -> None:
    template.release("v2.1.0", {"a.txt": "b\n"}, "_tasks: ['true']\n")


def break_choice(template: Template, child: Child) -> None:
    loud = "line: {type: str, choices: [b], default: \"{{ UNSET if _copier_answers.line is defined else 'b' }}\"}\n"
    template.release("v2.1.0", {"a.txt": "b\n"}, loud)


def break_nothing(template: Template, child: Child) -> None:
    pass


@pytest.mark.parametrize(
    ("damage", "options", "message"),
    sampled(
        [
            (break_dirty, (), "uncommitted changes: commit or stash them first (untracked)"),
            (break_answers, (), "cannot be read: restore it"),
            (break_missing_answers, (), "has no .copier-answers.yml"),
            (break_commit, (), "lacks _commit"),
            (break_tag, (), "no version v1.0.0 any more"),
            (break_source, (), "cannot be reached"),
            (break_relative_source, (), "/child, to which _src_path in .copier-answers.yml leads, is not a template"),
            (break_template, (), "No filter named 'nonsense'"),
            (break_trust, (), "trust"),
            (break_choice, (), "the answer line: a is not possible in v2.1.0 any more"),
            (break_nothing, ("--to", "v7"), "has no version v7: there are v1.0.0, v2.0.0"),
            (break_nothing, ("--to", "v0.5.0"), "has no version v0.5.0"),
            (break_nothing, ("--answer", "lnie=b"), "no question 'lnie': it has line\n"),
        ],
        every(4),
    ),
)
def test_error_is_one_line_and_changes_nothing(
    template: Template, tmp_path: Path, program: Program, damage: Any, options: tuple[str, ...], message: str
) -> None:
    settings = "line: {type: str, choices: [a, b], default: a}\nfact: {type: str, when: false, default: a}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, settings)
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "b\n"}, settings)
    damage(template, child)
    before = child.status()
    assert program(child, *options) == 1
    assert message in program.err
    assert re.fullmatch(r"update: [^\n]+\n", program.err), program.err
    assert child.status() == before
    assert child.read("a.txt") == "a\n"


def test_an_error_is_told_to_programs_too(template: Template, program: Program, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    assert program(child, "--json", "--to", "v9.0.0") == 1
    told = json.loads(program.out)
    assert told == {"code": 1, "error": "the template has no version v9.0.0: there are v1.0.0"}
    assert program.err == f"update: {told['error']}\n"


@pytest.mark.slow
def test_older_version_is_refused(template: Template, tmp_path: Path, program: Program) -> None:
    for version in ("v1.0.0", "v2.0.0"):
        template.release(version, {"a.txt": version})
    child = make_child(template, tmp_path / "child")
    assert program(child, "--to", "v1.0.0") == 1
    assert "v1.0.0 is older than v2.0.0" in program.err


def test_failure_while_writing_takes_everything_back(
    template: Template, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n", "b.txt": "b\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n", "b.txt": "2\n", "c.txt": "2\n"})

    def full_disk(name: str) -> None:
        if name == "new c.txt":
            raise OSError("No space left on device")

    monkeypatch.setattr(write_back, "step", full_disk)
    assert program(child) == 1
    assert "taken back: No space left" in program.err
    assert child.status() == {}
    assert child.read("a.txt") == "a\n"


def test_text_about_markers_is_no_conflict(template: Template, tmp_path: Path, program: Program) -> None:
    template.release("v1.0.0", {"a.py": "x = 1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.py": f'MARK = "{MARKER}before updating"\n'})
    assert program.files(child) == {"a.py": "updated"}


def test_unreadable_list_of_owners_does_not_stop_the_update(
    template: Template, tmp_path: Path, program: Program
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n", "b.txt": "b\n", ".copier-ownership.yml": "managed:\n  a: b: c\n"})
    child = make_child(template, tmp_path / "child", edits={"b.txt": None})
    template.release("v2.0.0", {"a.txt": "2\n", "b.txt": "2\n", ".copier-ownership.yml": "managed: {}\n"})
    assert program.files(child)["b.txt"] == "opted out"


def test_a_deleted_managed_file_with_the_name_of_a_seed_is_told(
    template: Template, tmp_path: Path, program: Program
) -> None:
    lists = "managed: {deploy/README.md: m}\nseed: {README.md: s}\n"
    files = {"README.md": "r\n", "deploy/README.md": "d\n", ".copier-ownership.yml": lists}
    template.release("v1.0.0", files)
    child = make_child(template, tmp_path / "child", edits={"README.md": None, "deploy/README.md": None})
    template.release("v2.0.0", {**files, "deploy/README.md": "fixed\n", "README.md": "other\n"})
    assert program.files(child) == {"deploy/README.md": "opted out"}
