"""What Copier does with answers, versions and paths of templates, on the newest and the oldest supported version.

One test for one behaviour that an author of templates has to know; a Copier that behaves otherwise is noticed here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.updates.tiny import ANSWERS_FILE, Child, Template, copy, make_child, write_files

LINE = {"line.txt.jinja": "{{ line }}\n"}


def answers(child: Child) -> dict[str, object]:
    """Return what the child's answers file holds."""
    loaded: dict[str, object] = yaml.safe_load(child.read(".copier-answers.yml"))
    return loaded


def question(choices: str, default: str = "cu130", validator: str = "") -> str:
    """Return a copier.yml that asks for `line`."""
    text = f"line:\n  type: str\n  choices: {choices}\n"
    text += f"  default: {default}\n" if default else ""
    return text + (f"  validator: {json.dumps(validator)}\n" if validator else "")


REFUSED = {
    "removed choice": question("[cu128, cu130]"),
    "validator of the choice": question(
        "{cu126: {value: cu126, validator: 'gone'}, cu130: {value: cu130, validator: ''}}"
    ),
    "validator of the question": question(
        "[cu126, cu130]", validator="{% if line == 'cu126' %}cu126 is gone{% endif %}"
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_refused_answer_is_replaced_by_the_default_without_a_word(template: Template, tmp_path: Path, how: str) -> None:
    template.release("v1.0.0", LINE, question("[cu126, cu128, cu130]"))
    child = make_child(template, tmp_path / "child", "--data", "line=cu126")
    template.release("v2.0.0", LINE, REFUSED[how])
    child.updated()
    assert child.read("line.txt") == "cu130\n"


def test_removed_choice_without_a_default_stops_the_update(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, question("[cu126, cu128]", default=""))
    child = make_child(template, tmp_path / "child", "--data", "line=cu126")
    template.release("v2.0.0", LINE, question("[cu128, cu130]", default=""))
    done = child.update()
    assert done.returncode == 1
    assert 'Question "line" is required' in done.stderr
    assert child.status() == {}


def test_removed_choice_given_to_a_copy_fails(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, question("[cu128, cu130]"))
    done = copy(template, tmp_path / "child", "--data", "line=cu126")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "Invalid choice" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("skip", [(), ("--skip-answered",)])
def test_unset_default_for_old_children_makes_a_removed_choice_loud(
    template: Template, tmp_path: Path, skip: tuple[str, ...]
) -> None:
    loud = "\"{{ UNSET if _copier_answers.line is defined else 'cu130' }}\""
    template.release("v1.0.0", LINE, question("[cu126, cu128, cu130]"))
    valid = make_child(template, tmp_path / "valid", "--data", "line=cu128")
    child = make_child(template, tmp_path / "child", "--data", "line=cu126")
    template.release("v2.0.0", LINE, question("[cu128, cu130]", default=loud))
    refused = child.update(*skip)
    assert refused.returncode == 1, "the update must stop where the recorded choice is gone"
    assert child.status() == {}
    child.updated(*skip, "--data", "line=cu130")
    valid.updated(*skip)
    assert (child.read("line.txt"), valid.read("line.txt")) == ("cu130\n", "cu128\n")
    assert copy(template, tmp_path / "fresh").returncode == 0


def test_renamed_question_takes_the_answer_along(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt.jinja": "{{ stack }}\n"}, "stack: {type: str, default: plain}\n")
    child = make_child(template, tmp_path / "child", "--data", "stack=torch")
    renamed = "framework: {type: str, default: \"{{ stack | default('plain') }}\"}\n"
    template.release("v2.0.0", {"a.txt.jinja": "{{ framework }}\n"}, renamed)
    child.updated()
    assert child.read("a.txt") == "torch\n"
    assert "stack" not in answers(child)


def test_changed_default_never_reaches_children_and_computed_values_do(template: Template, tmp_path: Path) -> None:
    files = {"a.txt.jinja": "{{ asked }}\n\n\n\n{{ computed }}\n"}
    for version, value in (("v1.0.0", "one"), ("v2.0.0", "two")):
        settings = f"asked: {{type: str, default: {value}}}\ncomputed: {{type: str, when: false, default: {value}}}\n"
        if version == "v2.0.0":
            child = make_child(template, tmp_path / "child")
        template.release(version, files, settings)
    child.updated()
    assert child.read("a.txt") == "one\n\n\n\ntwo\n"
    assert answers(child).keys() == {"_commit", "_src_path", "asked"}


def test_operation_is_not_known_in_a_default(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, 'line: {type: str, default: "[{{ _copier_operation }}]"}\n')
    child = make_child(template, tmp_path / "child")
    assert child.read("line.txt") == "[]\n"


def test_misspelt_question_is_accepted(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, "line: {type: str, default: x}\n")
    assert copy(template, tmp_path / "child", "--data", "lnie=y").returncode == 0


def test_undefined_names_fail_only_with_strict_undefined(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt.jinja": "[{{ typo }}]\n"})
    assert make_child(template, tmp_path / "loose").read("a.txt") == "[]\n"
    template.release("v2.0.0", {"a.txt.jinja": "[{{ typo }}]\n"}, "_envops: {undefined: jinja2.StrictUndefined}\n")
    done = copy(template, tmp_path / "strict")
    assert done.returncode == 1
    assert "'typo' is undefined" in done.stderr


def test_answers_change_by_an_update_to_the_same_version(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, "line: {type: str, default: x}\n")
    child = make_child(template, tmp_path / "child")
    child.updated("--vcs-ref", ":current:", "--data", "line=y")
    assert child.read("line.txt") == "y\n"
    assert answers(child)["line"] == "y"
    assert answers(child)["_commit"] == "v1.0.0"


def test_hand_edited_answer_conflicts_with_the_file_it_should_change(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", LINE, "line: {type: str, default: x}\n")
    child = make_child(template, tmp_path / "child")
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml").replace("line: x", "line: y")})
    child.updated("--vcs-ref", ":current:")
    assert child.read("line.txt") == "x\n", "Copier takes the edited answer for the old one and renders no change"


def test_check_update_exits_0_unless_quiet(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"})
    done = child.copier.run("check-update", "--output-format", "json", cwd=child.path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"update_available": True, "current_version": "1.0.0", "latest_version": "2.0.0"}
    assert child.copier.run("check-update", "--quiet", cwd=child.path).returncode == 2


def test_downgrade_is_refused(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    template.release("v2.0.0", {"a.txt": "2\n"})
    child = make_child(template, tmp_path / "child")
    done = child.update("--vcs-ref", "v1.0.0")
    assert done.returncode == 1
    assert "downgrade" in done.stderr.lower()
    assert child.read("a.txt") == "2\n"


def test_deleted_tag_leaves_the_child_stuck(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"})
    template.git("tag", "--delete", "v1.0.0")
    done = child.update()
    assert done.returncode == 1
    assert child.read("a.txt") == "1\n"


def test_shallow_clone_of_the_template_cannot_update(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"})
    shallow = tmp_path / "shallow"
    template.git("clone", "--quiet", "--depth=1", f"file://{template.path}", str(shallow))
    moved = child.read(".copier-answers.yml").replace(str(template.path), str(shallow))
    child.edit({".copier-answers.yml": moved})
    assert child.update().returncode == 1
    assert child.read("a.txt") == "1\n"


def test_shallow_clones_and_worktrees_of_a_child_update(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"})
    shallow, worktree = (Child(tmp_path / name, child.copier) for name in ("shallow", "worktree"))
    child.git("clone", "--quiet", "--depth=1", f"file://{child.path}", str(shallow.path))
    child.git("worktree", "add", "--quiet", "-b", "other", str(worktree.path))
    for place in (shallow, worktree):
        place.updated()
        assert place.read("a.txt") == "2\n", place.path.name


def test_relative_path_of_a_template_fails_elsewhere(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    done = template.copier.run("copy", "--defaults", "template", "child", cwd=tmp_path)
    assert done.returncode == 0
    child = Child(tmp_path / "child", template.copier)
    child.git("init", "--quiet")
    child.commit()
    assert answers(child)["_src_path"] == "template"
    refused = child.update()
    assert refused.returncode == 1
    assert "Local template must be a directory" in refused.stderr


def test_prefixed_tags_are_no_versions(template: Template, tmp_path: Path) -> None:
    template.release("svc/v1.0.0", {"a.txt": "1\n"})
    write_files(template.path, {"a.txt": "not released\n"})
    template.commit()
    done = copy(template, tmp_path / "child")
    assert (tmp_path / "child" / "a.txt").read_text() == "not released\n"
    assert "HEAD" in done.stderr


def test_too_old_copier_is_refused_in_one_line(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"}, "_min_copier_version: '99.0'\n")
    done = copy(template, tmp_path / "child")
    assert done.returncode == 1
    assert "99.0" in done.stderr
    assert not (tmp_path / "child").exists()


def test_required_answer_that_is_missing_shows_a_traceback(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", ANSWERS_FILE, "name: {type: str}\n")
    done = copy(template, tmp_path / "child")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert 'Question "name" is required' in done.stderr.splitlines()[-1]
