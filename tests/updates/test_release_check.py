"""The release check: what would hurt children is refused by name, and what is listed as retired is let through."""

import sys
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import pytest
import release_check
from releasekit import template

from tests.sampling import every, sampled
from tests.updates.copiers import copier_at
from tests.updates.release_cases import (
    ALLOWED,
    ANSWERS_FILE,
    GOOD,
    HARMFUL_UPDATES,
    MADE_BY_HAND,
    REFUSED,
    SETTINGS,
    TOOLS,
    Files,
    change,
)
from tests.updates.tiny import Template, write_files

Check = Callable[..., int]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return a function that releases GOOD as 1.0.0, changes the work tree and runs the check on it."""

    def of(changed: Files, *options: str, by_hand: Callable[[Path], object] = lambda _: None) -> int:
        copier = copier_at(tmp_path / "copier-home")
        for name, value in copier.environment().items():
            monkeypatch.setenv(name, value)
        family = Template(tmp_path / "template", copier)
        answers_file = {ANSWERS_FILE: "{{ _copier_answers | to_nice_yaml }}"}
        family.release("v1.0.0", GOOD | answers_file, GOOD["copier.yml"])
        (family.path / "t/scripts/build").chmod(0o755)
        family.git("commit", "--quiet", "--all", "--amend", "--no-edit")
        family.git("tag", "--force", "v1.0.0")
        for name in GOOD.keys() - changed.keys():
            (family.path / name).unlink()
        write_files(family.path, changed)
        by_hand(family.path)
        monkeypatch.setattr(sys, "argv", ["release_check", "--repository", str(family.path), *options])
        return release_check.main()

    return of


@pytest.mark.slow
@pytest.mark.parametrize("case", [*sampled(REFUSED, every(20), every(3)), *sampled(MADE_BY_HAND, every(2))])
def test_what_would_hurt_children_is_refused(case: str, check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    if case in REFUSED:
        apply, reason = REFUSED[case]
        assert check(apply(GOOD), "--no-updates") == 1
    else:
        by_hand, reason = MADE_BY_HAND[case]
        assert check(GOOD, "--no-updates", by_hand=by_hand) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(HARMFUL_UPDATES, every(9)))
def test_an_update_that_harms_an_edited_child_is_refused(
    case: str, check: Check, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply, reason = HARMFUL_UPDATES[case]
    monkeypatch.setitem(template.NAME, "title", "mine")
    assert check(apply(GOOD)) == 1
    told = capsys.readouterr().err
    assert "update of a child of 1.0.0: " in told
    assert reason in told


@pytest.mark.slow
def test_real_updates_of_edited_children_are_let_through(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    better = change(t__scripts__build="better\n", t__README_dot_md="a better seed\n", t__scripts__new="n\n")
    assert check(better(GOOD)) == 0, capsys.readouterr().err
    assert "update edited children of v1.0.0 ..." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(ALLOWED, every(6), every(2)))
def test_what_children_can_take_is_let_through(case: str, check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(ALLOWED[case](GOOD), "--no-updates") == 0, capsys.readouterr().err


ANSWERS = "{{ _copier_conf.answers_file }}.jinja"


def read(folder: Path, settings: str) -> template.Template:
    """Return a template with these settings."""
    write_files(folder, GOOD | {"copier.yml": settings, f"t/{ANSWERS}": "{{ _copier_answers | to_nice_yaml }}"})
    return template.read_template(folder)


def test_every_pair_of_choices_is_tried_for_each_first_choice(tmp_path: Path) -> None:
    more = "sure: {type: bool, default: true}\n" + TOOLS.replace("[p, q]", "[p, q, r]")
    more += "mode: {type: str, choices: [x, y], default: x, when: '{{ gpu }}'}\n"
    made = read(tmp_path, SETTINGS + more)
    sets = [template.name_of(one, made).replace("+", " tools=") for one in template.answer_sets(made, "1.1.0")]
    found = [set(one.split()) for one in sets if one]
    for flavour, gpu, sure in product("ab", (True, False), (True, False)):
        assert any({f"flavour={flavour}", f"gpu={gpu}", f"sure={sure}"} <= one for one in found)
    for flavour, entries in product("ab", combinations("pqr", 2)):
        assert any({f"flavour={flavour}", *(f"tools={entry}" for entry in entries)} <= one for one in found)
    for flavour, tool in product("ab", "pr"):  # also where another answer hides the question
        assert any({f"flavour={flavour}", f"tools={tool}", "mode=y"} <= one - {"gpu=False"} == one for one in found)
    assert len(found) < 50


def test_each_version_has_another_sample(tmp_path: Path) -> None:
    made = read(tmp_path, SETTINGS + TOOLS)
    found, again, other = ([*template.answer_sets(made, seed)] for seed in ("1.1.0", "1.1.0", "1.2.0"))
    assert (found == again, found == other) == (True, False)


@pytest.mark.slow
def test_the_same_files_are_checked_once(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(change(t__scripts__build="better\n")(GOOD)) == 0
    again = ["release_check", "--repository", str(tmp_path / "template"), "--version"]
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*again, "1.0.1rc1"])
    assert release_check.main() == 0
    assert "passed before: only version and changelog are checked" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*again, "1.0.2"])
    assert release_check.main() == 1
    assert "VERSION is 1.0.2, which does not follow 1.0.0" in capsys.readouterr().err
    (tmp_path / "template/t/scripts/build").write_text("other\n")
    monkeypatch.setattr(sys, "argv", [*again, "1.0.1rc1"])
    assert release_check.main() == 0
    assert "edited children" in capsys.readouterr().out


@pytest.mark.slow
def test_the_reviewer_sees_the_rendered_difference(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(change(t__scripts__build="better\n")(GOOD), "--no-updates") == 0
    assert "changed in the children with the defaults: 2 files, see " in capsys.readouterr().out
    patch = (tmp_path / "template/build/release-check.patch").read_text()
    assert patch.count("-build\n+better\n") == 2, "a child of each flavour"
