"""The release check: what would hurt children is refused by name, and what is listed as retired is let through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import pytest
import release_check
from releasekit import asked, compared, images, questions, sources

from tests.answers import DRIVERS, FRAMEWORKS, TYPES, AnswerSet
from tests.sampling import every, sampled
from tests.updates.copiers import ROOT, copier_at
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


def no_updates(*_: object) -> None:
    """Stand in for the real updates where the comparison alone is tested."""


def checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: Files, by_hand: Callable[[Path], object] | None = None
) -> int:
    """Release GOOD as 1.0.0, put `changed` into the work tree and run the check on it."""
    copier = copier_at(tmp_path / "copier-home")
    for name, value in copier.environment().items():
        monkeypatch.setenv(name, value)
    template = Template(tmp_path / "template", copier)
    commit = (
        "{% if _copier_conf.vcs_ref_hash %}\n# The template's commit: {{ _copier_conf.vcs_ref_hash }}\n{% endif %}\n"
    )
    answers_file = {ANSWERS_FILE: commit + "{{ _copier_answers | to_nice_yaml }}"}
    template.release("v1.0.0", GOOD | answers_file, GOOD["copier.yml"])
    (template.path / "t/scripts/build").chmod(0o755)
    template.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    template.git("tag", "--force", "v1.0.0")
    for name in GOOD.keys() - changed.keys():
        (template.path / name).unlink()
    write_files(template.path, changed)
    if by_hand:
        by_hand(template.path)
    monkeypatch.setattr(questions, "TEXTS", ("a", "z" * 40))
    monkeypatch.setattr(sys, "argv", ["release_check", "--repository", str(template.path)])
    return release_check.main()


@pytest.mark.parametrize("case", sampled(REFUSED, every(7)))
def test_what_would_hurt_children_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply, reason = REFUSED[case]
    monkeypatch.setattr(release_check, "update_children", no_updates)
    assert checked(tmp_path, monkeypatch, apply(GOOD)) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("case", sampled(MADE_BY_HAND, every(2)))
def test_what_only_the_file_system_shows_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand, reason = MADE_BY_HAND[case]
    monkeypatch.setattr(release_check, "update_children", no_updates)
    assert checked(tmp_path, monkeypatch, GOOD, by_hand) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("case", sampled(HARMFUL_UPDATES, every(9)))
def test_an_update_that_harms_an_edited_child_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply, reason = HARMFUL_UPDATES[case]
    monkeypatch.setattr(questions, "NAME", questions.NAME | {"title": "mine"})
    assert checked(tmp_path, monkeypatch, apply(GOOD)) == 1
    told = capsys.readouterr().err
    assert "the update of a child of 1.0.0, " in told
    assert reason in told


def test_real_updates_of_edited_children_are_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    better = change(t__scripts__build="better\n", t__README_dot_md="a better seed\n", t__scripts__new="n\n")
    assert checked(tmp_path, monkeypatch, better(GOOD)) == 0, capsys.readouterr().err
    assert "== 2 edited children were updated from 1.0.0" in capsys.readouterr().out


@pytest.mark.parametrize("case", sampled(ALLOWED, every(6)))
def test_what_children_can_take_is_let_through(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "update_children", no_updates)
    assert checked(tmp_path, monkeypatch, ALLOWED[case](GOOD)) == 0, capsys.readouterr().err


def test_every_choice_is_tried_alone_and_each_distinct_set_once(tmp_path: Path) -> None:
    more = "where: {type: str, choices: [x, y], default: x, when: \"{{ flavour == 'b' }}\"}\n"
    write_files(tmp_path, {"copier.yml": SETTINGS.replace("gpu: {type: bool, default: true}\n", "") + more + TOOLS})
    names = [questions.name_of(answers) for answers in questions.answer_sets(tmp_path)]
    told = ("none", "p", "q", "p+q")
    assert names == [f"a {tools}" for tools in told] + [f"b {where} {tools}" for where in "xy" for tools in told]


def test_every_part_of_a_list_is_tried_with_each_first_choice(tmp_path: Path) -> None:
    more = "sure: {type: bool, default: true}\n" + TOOLS.replace("[p, q]", "[p, q, r]")
    write_files(tmp_path, {"copier.yml": SETTINGS.replace("gpu: {type: bool, default: true}\n", "") + more})
    names = {questions.name_of(answers) for answers in questions.answer_sets(tmp_path)}
    always = ("none", "p", "q", "r", "p+q+r")
    whole = {f"{flavour} {sure} {told}" for flavour in "ab" for sure in (True, False) for told in always}
    assert names == whole | {f"{flavour} True {told}" for flavour in "ab" for told in ("p+q", "p+r", "q+r")}


LISTS = ("components", "ci", "pipeline")


@pytest.mark.slow
def test_each_answer_set_that_a_child_can_have_is_compared() -> None:
    """All single choices of the family with each other; of its lists, none, one, all, and all parts with plain."""
    compared = {repr(sorted(answers.items(), key=str)) for answers in questions.answer_sets(ROOT)}
    choices = [name for name, asked in questions.questions(ROOT).items() if questions.choices(asked)]
    assert set(LISTS) < set(choices), "a list came or went: what is a sample of it?"

    def left_out(answers: AnswerSet) -> bool:
        given = {name: value for name, value in answers.as_dict().items() if name in choices} | questions.NAME
        return repr(sorted(given.items(), key=str)) not in compared

    of_lists = {
        name: [part for count in range(len(values) + 1) for part in combinations(values, count)]
        for name, asked in questions.questions(ROOT).items()
        if name in LISTS and (values := questions.choices(asked))
    }
    nothing = dict.fromkeys(LISTS, ())
    plain = [
        AnswerSet(kind, "plain", **nothing | {name: part})
        for kind in TYPES
        for name in LISTS
        for part in of_lists[name]
    ]
    few = {name: [part for part in parts if len(part) < 2 or part == parts[-1]] for name, parts in of_lists.items()}
    single = [
        AnswerSet(kind, framework, driver, cluster, **dict(zip(LISTS, lists, strict=True)))
        for kind, framework, driver, cluster in product(TYPES, FRAMEWORKS, DRIVERS, (True, False))
        for lists in product(*(few[name] for name in LISTS))
    ]
    assert [answers.id for answers in plain + single if left_out(answers)] == []


@pytest.mark.slow
def test_what_no_version_allows_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "update_children", no_updates)
    monkeypatch.setitem(GOOD, "copier.yml", GOOD["copier.yml"] + TOOLS)
    assert checked(tmp_path, monkeypatch, GOOD | {"t/scripts/build": "better\n"}) == 0
    told = capsys.readouterr().out.splitlines()
    assert "== 12 answer sets of 1.0.0 were compared: every combination of choices, " in told[0]
    assert "parts of two lists at once are a sample" in told[0]
    assert "== 12 answer sets: a True none; a True p; a False none; a False p; b True none" in told[1]
    assert told[-1] == (
        "== 4 answer sets are not possible: a True q; a True p+q; a False q; a False p+q: "
        "Validation error for question 'tools': no q for a"
    )


def test_the_reviewer_sees_the_rendered_difference_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "update_children", no_updates)
    assert checked(tmp_path, monkeypatch, change(t__scripts__build="better\n")(GOOD)) == 0
    out = capsys.readouterr().out
    assert out.count("-build\n+better\n") == 1
    assert "== 4 answer sets" in out


def one_of_each(sets: list[questions.Answers]) -> list[questions.Answers]:
    """Return the sets that bring a choice to a type: an entry of a list, or several of them, counts as one."""
    seen: set[tuple[object, str, str]] = set()
    found = []
    for answers in sets:
        lists = {name: [*value, str(len(value[:2]))] for name, value in answers.items() if isinstance(value, list)}
        values = ((name, one) for name, value in answers.items() for one in lists.get(name, [value]))
        brought = {(answers["project_type"], name, str(one)) for name, one in values}
        found += [answers] if brought - seen else []
        seen |= brought
    return found


@pytest.mark.slow
def test_the_family_has_every_file_on_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value of every answer; `make release-check` does it with every combination."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(copier_at(tmp_path / "home").home / "gitconfig"))
    new = tmp_path / "new"
    release_check.export(ROOT, release_check.work_tree(ROOT), new)
    assert list(sources.faults(new)) == []
    check = release_check.Check(new, new, (ROOT / "VERSION").read_text().strip())
    asked.check_settings(check)
    asked.check_defaults(check)
    images.check_images(check)
    for number, answers in enumerate(one_of_each(questions.answer_sets(new))):
        if compared.possible(check, new, "the work tree", answers, tmp_path / str(number)):
            compared.check_rendered(check, questions.name_of(answers), tmp_path / str(number))
    assert len(list(tmp_path.glob("*/Dockerfile"))) >= 20, "hardly an answer set was rendered"
    assert check.refused == []
