"""Answers that an owner changes in the answers file count as given, and no update ends with 0 over half a change."""

from __future__ import annotations

import pytest

from tests.updates.program import Program
from tests.updates.test_update_hands import ANSWERS, MODULE, PACKAGE
from tests.updates.tiny import Child, Template, make_child

KIND = "kind: {type: str, choices: [small, big], default: small}\n"
SETTINGS = PACKAGE + KIND
FILES = MODULE | {"{% if kind == 'big' %}big.txt{% endif %}": "big\n", "kind.txt.jinja": "{{ kind }}\n"}
MODULES = "src/first/own.py"


@pytest.fixture
def child(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Child:
    """Return a child of version 1.0.0 with a module of its owner's in its package; 2.0.0 is released."""
    template.release("v1.0.0", FILES, SETTINGS)
    made = make_child(template, tmp_path_factory.mktemp("by-hand") / "child", edits={MODULES: "own = 1\n"})
    template.release("v2.0.0", FILES | {"fix.txt": "fixed\n"}, SETTINGS)
    return made


def change(child: Child, old: str, new: str) -> None:
    text = child.read(ANSWERS)
    assert old in text
    child.edit({ANSWERS: text.replace(old, new)})


@pytest.mark.parametrize("options", [[], ["--to", "v1.0.0"]], ids=["with an update", "in the same version"])
def test_a_package_renamed_in_the_answers_moves(program: Program, child: Child, options: list[str]) -> None:
    change(child, "package_name: first", "package_name: second")
    assert program(child, *options) in (0, 4), program.err
    assert "was changed by hand: package_name from first to second" in program.err
    assert child.read("src/second/own.py") == "own = 1\n"
    assert child.read("src/second/device.py") == "device = 1\n"
    assert child.read("run") == "second\n"
    assert not child.has(MODULES)
    assert child.has("fix.txt") == (not options)


def test_another_choice_in_the_answers_brings_its_files(program: Program, child: Child) -> None:
    change(child, "kind: small", "kind: big")
    assert program(child) == 0, program.out + program.err
    assert "kind from small to big" in program.err
    assert (child.read("big.txt"), child.read("kind.txt"), child.read("fix.txt")) == ("big\n", "big\n", "fixed\n")


def test_an_owners_edit_is_kept_where_the_answer_changes_the_same_file(program: Program, child: Child) -> None:
    child.edit({"kind.txt": "small, and mine\n"})
    change(child, "kind: small", "kind: big")
    assert program(child) == 3, program.out
    assert "mine" in child.read("kind.txt")
    assert child.has("big.txt")


def test_an_answer_that_the_option_gave_is_told_once(program: Program, child: Child) -> None:
    """What --answer changed is in the files already: nothing is by hand."""
    assert program(child, "--answer", "kind=big", "--to", "v1.0.0") == 0, program.err
    child.commit("Switched")
    assert program(child) == 0, program.err
    assert "by hand" not in program.err
    assert (child.read("big.txt"), child.read("kind.txt")) == ("big\n", "big\n")


def test_a_name_that_no_history_explains_is_at_risk(program: Program, child: Child, template: Template) -> None:
    """As in a clone of one commit."""
    change(child, "package_name: first", "package_name: second")
    child.git("checkout", "--quiet", "--orphan", "alone")
    child.commit("All there is")
    child.git("branch", "--quiet", "-D", *child.git("for-each-ref", "--format=%(refname:short)").split()[1:])
    assert program(child) == 4, program.out + program.err
    assert "at risk    src/second/: the answers call the package second, and src/ has first" in program.out


def test_a_dry_run_says_the_same_and_changes_nothing(program: Program, child: Child) -> None:
    change(child, "package_name: first", "package_name: second")
    before = child.read(ANSWERS)
    assert program(child, "--dry-run") in (0, 4), program.err
    assert "was changed by hand" in program.err
    assert child.has(MODULES)
    assert (child.status(), child.read(ANSWERS)) == ({}, before)


def test_an_answer_that_the_template_does_not_take_is_refused(program: Program, child: Child) -> None:
    change(child, "kind: small", "kind: huge")
    assert program(child) == 1, program.out
    assert "huge" in program.err or "kind" in program.err
    assert child.status() == {}


def test_a_comment_in_a_list_stays_at_its_item(program: Program, template: Template, tmp_path_factory) -> None:
    settings = "names: {type: yaml, default: [one, two]}\n"
    template.release("v1.0.0", {"a.txt": "a\n"}, settings)
    child = make_child(template, tmp_path_factory.mktemp("list") / "child")
    text = child.read(ANSWERS)
    item = next(row for row in text.splitlines() if row.strip() == "- two")
    child.edit({ANSWERS: text.replace(item, f"{item}  # why two")})
    template.release("v2.0.0", {"a.txt": "b\n"}, settings)
    assert program(child) == 0, program.out + program.err
    rows = [row.strip() for row in child.read(ANSWERS).splitlines()]
    assert rows[rows.index("# why two") + 1] == "- two"
