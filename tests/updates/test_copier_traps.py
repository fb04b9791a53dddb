"""What Copier does with the files of a child, good and bad, on the newest and the oldest supported version.

One test for one behaviour that an author of templates has to know; a Copier that behaves otherwise is noticed here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.updates.copiers import ROOT, Copier, minimum_version, newest_version
from tests.updates.tiny import MARKER, TEN_LINES, Child, Template, copy, make_child, write_files

EDITED = TEN_LINES + "owner's line\n"


def test_both_ends_of_the_supported_range_are_tested(copier: Copier, tmp_path: Path) -> None:
    expected = {"newest": newest_version(), "oldest": minimum_version()}[copier.label]
    assert copier.run("--version", cwd=tmp_path).stdout.split() == ["copier", expected]


def test_renamed_file_loses_the_edit_without_a_word(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"old.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"old.txt": EDITED})
    template.release("v2.0.0", {"new.txt": TEN_LINES})
    child.updated()
    assert not child.has("old.txt")
    assert child.read("new.txt") == TEN_LINES
    assert not child.unmerged()


def test_dropped_file_loses_the_edit_without_a_word(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"a.txt": EDITED})
    template.release("v2.0.0", {"b.txt": "b\n"})
    child.updated()
    assert not child.has("a.txt")
    assert not child.unmerged()


def test_file_switched_off_by_an_answer_loses_the_edit(template: Template, tmp_path: Path) -> None:
    settings = "deploy: {type: bool, default: true}\n"
    settings += "_exclude: ['{% if not deploy %}deploy.txt{% endif %}', copier.yml, .git]\n"
    template.release("v1.0.0", {"deploy.txt": TEN_LINES}, settings)
    child = make_child(template, tmp_path / "child", edits={"deploy.txt": EDITED})
    child.updated("--vcs-ref", ":current:", "--data", "deploy=false")
    assert not child.has("deploy.txt")


def test_dropped_skip_if_exists_file_loses_the_edit(template: Template, tmp_path: Path) -> None:
    settings = "_skip_if_exists: [a.txt]\n"
    template.release("v1.0.0", {"a.txt": TEN_LINES}, settings)
    child = make_child(template, tmp_path / "child", edits={"a.txt": EDITED})
    template.release("v2.0.0", {"b.txt": "b\n"}, settings)
    child.updated()
    assert not child.has("a.txt")


def test_dropped_file_that_is_excluded_by_the_new_version_is_kept(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"a.txt": EDITED})
    template.release("v2.0.0", {"b.txt": "b\n"}, "_exclude: [copier.yml, .git, a.txt]\n")
    child.updated()
    assert child.read("a.txt") == EDITED


@pytest.mark.parametrize(("move", "keeps"), [("mv", False), ("git mv", True)])
def test_rename_by_migration_needs_trust_and_keeps_the_edit_only_with_git(
    template: Template, tmp_path: Path, move: str, keeps: bool
) -> None:
    migration = f"_migrations: [{{version: v2.0.0, when: '{{{{ _stage == \"before\" }}}}', command: {move} old new}}]\n"
    template.release("v1.0.0", {"old": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"old": EDITED})
    template.release("v2.0.0", {"new": TEN_LINES}, migration)
    refused = child.update()
    assert refused.returncode == 4, refused.stderr
    assert child.read("old") == EDITED
    child.updated("--trust")
    assert ("owner's line" in child.read("new")) is keeps


def test_rename_is_merged_on_a_branch_that_holds_the_plain_render(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"old.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", "--vcs-ref", "v1.0.0")
    template.release("v2.0.0", {"new.txt": TEN_LINES.replace("line 2\n", "line two\n")})
    child.git("branch", "plain")
    child.edit({"old.txt": EDITED})
    plain = Child(tmp_path / "plain", child.copier)
    child.git("worktree", "add", "--quiet", str(plain.path), "plain")
    done = plain.copier.run("recopy", "--defaults", "--overwrite", cwd=plain.path)
    assert done.returncode == 0, done.stderr
    (plain.path / "old.txt").unlink()
    plain.commit("The plain render of v2.0.0")
    child.git("merge", "--quiet", "plain")
    assert child.read("new.txt") == EDITED.replace("line 2\n", "line two\n")


def test_deleted_file_gets_no_fix_and_no_word(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES, "b.txt": "b\n"})
    child = make_child(template, tmp_path / "child", edits={"a.txt": None})
    template.release("v2.0.0", {"a.txt": TEN_LINES + "security fix\n", "b.txt": "b\n"})
    done = child.updated()
    assert not child.has("a.txt")
    assert "a.txt" not in done.stdout


def test_inline_conflict_exits_0_and_shows_in_the_index(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"a.txt": TEN_LINES.replace("line 5", "owner's five")})
    template.release("v2.0.0", {"a.txt": TEN_LINES.replace("line 5", "template's five")})
    child.updated("--conflict", "inline")
    assert child.unmerged() == {"a.txt"}
    text = child.read("a.txt")
    assert MARKER in text
    assert "owner's five" in text
    assert "template's five" in text


def test_rej_conflict_exits_0_and_the_file_holds_the_template(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"a.txt": TEN_LINES.replace("line 5", "owner's five")})
    template.release("v2.0.0", {"a.txt": TEN_LINES.replace("line 5", "template's five")})
    child.updated("--conflict", "rej")
    assert "owner's five" not in child.read("a.txt")
    assert "owner's five" in child.read("a.txt.rej")


def test_edits_apart_from_the_fix_are_merged_and_again_is_a_no_op(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": TEN_LINES})
    child = make_child(template, tmp_path / "child", edits={"a.txt": EDITED, "own.txt": "own\n"})
    template.release("v2.0.0", {"a.txt": TEN_LINES.replace("line 1\n", "line one\n")})
    child.updated()
    assert child.read("a.txt") == EDITED.replace("line 1\n", "line one\n")
    assert child.status().keys() == {"a.txt", ".copier-answers.yml"}
    child.commit()
    child.updated()
    assert child.status() == {}


def test_untracked_file_refuses_the_update_in_one_line(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    write_files(child.path, {"untracked.txt": "x\n"})
    done = child.update()
    assert done.returncode == 1
    assert "dirty" in done.stderr
    assert "Traceback" not in done.stderr


def test_pretended_update_names_no_file(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"})
    done = child.updated("--pretend")
    assert child.status() == {}
    assert "2.0.0" in done.stderr
    assert "a.txt" not in done.stdout + done.stderr


def test_tasks_need_trust_and_run_three_times_in_one_update(template: Template, tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = f"_tasks: ['echo {{{{ _copier_operation }}}} >> {log}']\n"
    template.release("v1.0.0", {"a.txt": "1\n"}, settings)
    child = make_child(template, tmp_path / "child", "--trust")
    log.unlink()
    template.release("v2.0.0", {"a.txt": "2\n"}, settings)
    assert child.update("--skip-tasks").returncode == 4
    child.updated("--trust")
    assert len(log.read_text().splitlines()) == 3


def test_removed_tasks_still_need_trust_for_the_step_that_removes_them(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"}, "_tasks: ['true']\n")
    child = make_child(template, tmp_path / "child", "--trust")
    template.release("v2.0.0", {"a.txt": "2\n"})
    assert child.update().returncode == 4


def test_settings_file_can_give_trust_to_one_template(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"}, "_tasks: ['true']\n")
    settings = template.copier.home / "settings.yml"
    settings.write_text(f"trust: ['{tmp_path}/']\n")
    assert copy(template, tmp_path / "child").returncode == 0


def test_unversioned_migration_sees_the_version_of_the_one_before(template: Template, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tell = f"echo {{{{ _version_current | default(0) }}}} >> {log}"
    migrations = f"_migrations: [{{version: v1.5.0, command: 'true'}}, '{tell}']\n"
    template.release("v1.0.0", {"a.txt": "1\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt": "2\n"}, migrations)
    child.updated("--trust")
    assert "v1.5.0" in log.read_text().split()


SEEDS = """
_exclude:
  - copier.yml
  - .git
  - |
    {% if _copier_operation == 'update' %}
    /src/
    {% endif %}
"""


def test_seeds_are_rendered_once_and_never_touched(template: Template, tmp_path: Path) -> None:
    template.release(
        "v1.0.0", {"src/edited.py": "a = 1\n", "src/deleted.py": "b = 1\n", "src/dropped.py": "c\n"}, SEEDS
    )
    child = make_child(template, tmp_path / "child")
    child.edit({"src/edited.py": "a = 'mine'\n", "src/deleted.py": None})
    template.release("v2.0.0", {"src/edited.py": "a = 2\n", "src/deleted.py": "b = 2\n", "src/late.py": "d\n"}, SEEDS)
    child.updated()
    assert child.read("src/edited.py") == "a = 'mine'\n"
    assert not child.has("src/deleted.py")
    assert child.read("src/dropped.py") == "c\n"
    assert not child.has("src/late.py"), "a seed added later does not reach an old child"


KINDS = """
_subdirectory: "types/{{ kind }}"
kind: {type: str, choices: [one, two], default: one}
"""


def test_switched_type_swaps_files_merges_namesakes_and_deletes_edited_ones(template: Template, tmp_path: Path) -> None:
    answers = {
        "types/" + kind + "/" + name: text
        for kind in ("one", "two")
        for name, text in {"{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}"}.items()
    }
    files = {
        "types/one/both.txt": TEN_LINES,
        "types/two/both.txt": TEN_LINES.replace("line 2\n", "two\n"),
        "types/one/one.txt": TEN_LINES,
        "types/two/two.txt": "2\n",
    }
    template.release("v1.0.0", answers | files, KINDS)
    child = make_child(template, tmp_path / "child", edits={"both.txt": EDITED, "one.txt": EDITED})
    child.updated("--vcs-ref", ":current:", "--data", "kind=two")
    assert child.read("both.txt") == EDITED.replace("line 2\n", "two\n")
    assert child.read("two.txt") == "2\n"
    assert not child.has("one.txt"), "the owner's edit of a file that only the old type has is lost"


def test_templates_under_a_subdirectory_are_rendered_without_the_default_excludes(
    template: Template, tmp_path: Path
) -> None:
    template.release("v1.0.0", {"t/copier.yml": "an ordinary file here\n"}, "_subdirectory: t\n")
    copy(template, tmp_path / "child")
    assert (tmp_path / "child" / "copier.yml").exists()


def test_executable_bit_of_the_template_is_copied_and_taken_back(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"run": "#!/bin/sh\n"})
    (template.path / "run").chmod(0o755)
    template.commit()
    template.git("tag", "v1.1.0")
    child = make_child(template, tmp_path / "child")
    assert (child.path / "run").stat().st_mode & 0o111
    template.release("v2.0.0", {"run": "#!/bin/sh\n: new\n"})
    child.updated()
    assert not (child.path / "run").stat().st_mode & 0o111


def test_symlinks_of_the_template_become_files(template: Template, tmp_path: Path) -> None:
    template.release("v1.0.0", {"a.txt": "1\n"})
    (template.path / "link.txt").symlink_to("a.txt")
    template.commit()
    template.git("tag", "v1.1.0")
    child = make_child(template, tmp_path / "child")
    assert not (child.path / "link.txt").is_symlink()
    assert child.read("link.txt") == "1\n"


def test_two_templates_in_one_child_update_apart(template: Template, copier: Copier, tmp_path: Path) -> None:
    other = Template(tmp_path / "other", copier)
    template.release(
        "v1.0.0", {"a.txt": "1\n"}, "_answers_file: .copier-answers.a.yml\nname: {type: str, default: n}\n"
    )
    settings = "_answers_file: .copier-answers.b.yml\n_external_data: {a: .copier-answers.a.yml}\n"
    uses_a = {"uses-a.txt.jinja": "{{ _external_data.a.name }}\n"}
    other.release("v1.0.0", uses_a | {"b.txt": "1\n"}, settings)
    child = make_child(template, tmp_path / "child")
    assert copy(other, child.path).returncode == 0
    assert child.read("uses-a.txt") == "n\n"
    child.commit()
    other.release("v2.0.0", uses_a | {"b.txt": "2\n"}, settings)
    child.updated("--answers-file", ".copier-answers.b.yml")
    assert (child.read("a.txt"), child.read("b.txt"), child.read("uses-a.txt")) == ("1\n", "2\n", "n\n")
    refused = child.update("--answers-file", ".copier-answers.a.yml")
    assert refused.returncode == 1
    assert "dirty" in refused.stderr


def test_changed_line_with_data_of_another_template_conflicts(
    template: Template, copier: Copier, tmp_path: Path
) -> None:
    """The renders that an update compares are made where the other template's answers are not."""
    settings = "_external_data: {a: a.yml}\n"
    template.release("v1.0.0", {"b.txt.jinja": "{{ _external_data.a.name }} 1\n"}, settings)
    (tmp_path / "child").mkdir()
    write_files(tmp_path / "child", {"a.yml": "name: n\n"})
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"b.txt.jinja": "{{ _external_data.a.name }} 2\n"}, settings)
    child.updated()
    assert child.unmerged() == {"b.txt"}


def test_the_family_itself_has_neither_submodules_nor_symlinks() -> None:
    assert not (ROOT / ".gitmodules").exists()
    links = [str(path) for path in (ROOT / "templates").rglob("*") if path.is_symlink()]
    assert links == []
