"""Which releases a template has: by its tags, else by the commits of VERSION; moved, doubled and early ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases import released

from tests.updates.copiers import ROOT, run_program
from tests.updates.program import Program
from tests.updates.tiny import TEN_LINES, Child, Repository, Template, make_child

SETTINGS = "_exclude: [copier.yml, VERSION, CHANGELOG.md, .git]\n"
WITH_HASH = {
    "{{ _copier_conf.answers_file }}.jinja": "# The template's commit: {{ _copier_conf.vcs_ref_hash }}\n"
    "{{ _copier_answers | to_nice_yaml }}"
}


def release(template: Template, version: str, text: str, **more: str) -> None:
    """Release a version with its VERSION file and one file of `text`."""
    template.release(f"v{version}", {"VERSION": f"{version}\n", "a.txt": text, **more}, SETTINGS)


def two_releases(template: Template, folder: Path) -> Child:
    """Return a child of 1.0.0 with an edit; 2.0.0 is released."""
    release(template, "1.0.0", TEN_LINES)
    child = make_child(template, folder / "child", edits={"a.txt": TEN_LINES + "owner's line\n"})
    release(template, "2.0.0", "fixed\n" + TEN_LINES)
    return child


def drop_tags(template: Repository, *names: str) -> None:
    template.git("tag", "--delete", *(names or template.git("tag").split()))


def test_a_template_without_tags_has_its_releases(template: Template, tmp_path: Path, program: Program) -> None:
    child = two_releases(template, tmp_path)
    drop_tags(template)
    assert program(child) == 0, program.err
    assert "found by the commits of VERSION" in program.err
    assert child.read("a.txt") == "fixed\n" + TEN_LINES + "owner's line\n"
    assert "_commit: v2.0.0\n" in child.read(".copier-answers.yml")
    child.commit("Update")
    assert program(child) == 0
    assert "nothing to do: v2.0.0" in program.out


@pytest.mark.slow
def test_a_child_of_plain_copier_without_tags_updates(template: Template, tmp_path: Path, program: Program) -> None:
    release(template, "1.0.0", "a\n")
    drop_tags(template)
    child = make_child(template, tmp_path / "child")
    assert "_commit: v" not in child.read(".copier-answers.yml"), "Copier names a commit where there is no tag"
    assert program(child) == 0
    assert "nothing to do" in program.out
    release(template, "2.0.0", "b\n")
    drop_tags(template)
    assert program(child) == 0, program.err
    assert child.read("a.txt") == "b\n"


@pytest.mark.slow
def test_make_tags_lets_plain_copier_copy_and_update(template: Template, tmp_path: Path) -> None:
    child = two_releases(template, tmp_path)
    drop_tags(template)
    assert child.update().returncode == 1, "Copier finds v1.0.0 without its tag"
    done = run_program("release", ["--repository", str(template.path), "tags"], ROOT, template.copier.environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tagged v1.0.0, v2.0.0\n"
    child.updated()
    assert child.read("a.txt") == "fixed\n" + TEN_LINES + "owner's line\n"
    fresh = make_child(template, tmp_path / "fresh")
    assert "_commit: v2.0.0\n" in fresh.read(".copier-answers.yml")


@pytest.mark.slow
def test_releases_between_the_tags_are_found_too(template: Template, tmp_path: Path, program: Program) -> None:
    child = two_releases(template, tmp_path)
    drop_tags(template, "v2.0.0")
    assert program(child, "--dry-run") == 0
    assert program.out.startswith("v1.0.0 -> v2.0.0")
    assert "no tag for v2.0.0" in program.err
    drop_tags(template)
    template.git("tag", "v2.0.0")
    assert program(child, "--dry-run") == 0
    assert program.out.startswith("v1.0.0 -> v2.0.0"), "the version that the child follows has no tag"


def test_a_version_in_the_making_is_not_a_release(template: Template, tmp_path: Path, program: Program) -> None:
    child = two_releases(template, tmp_path)
    release(template, "3.0.0.dev0", "later\n")
    drop_tags(template)
    assert program(child, "--dry-run") == 0
    assert program.out.startswith("v1.0.0 -> v2.0.0")
    assert list(released(template.path)) == ["1.0.0", "2.0.0"]


def test_a_canary_takes_a_pre_release_and_goes_on(template: Template, tmp_path: Path, program: Program) -> None:
    release(template, "1.0.0", "a\n")
    child = make_child(template, tmp_path / "child")
    release(template, "2.0.0rc1", "b\n")
    assert program(child) == 0
    assert "nothing to do" in program.out, "nobody gets a pre-release without asking"
    assert program(child, "--to", "2.0.0rc1") == 0, program.err
    assert child.read("a.txt") == "b\n"
    child.commit("Canary")
    assert program(child) == 0
    assert "nothing to do" in program.out
    release(template, "2.0.0", "c\n")
    assert program(child) == 0, program.err
    assert program.out.startswith("v2.0.0rc1 -> v2.0.0\n")
    assert child.read("a.txt") == "c\n"


@pytest.mark.slow
def test_two_names_of_one_commit_are_one_release(template: Template, tmp_path: Path, program: Program) -> None:
    child = two_releases(template, tmp_path)
    for version in ("1.0.0", "2.0.0"):
        template.git("tag", version, f"v{version}")
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml").replace("v1.0.0", "1.0.0")})
    assert program(child, "--to", "2.0.0") == 0, program.err
    child.commit("Update")
    assert program(child) == 0
    assert "nothing to do" in program.out


@pytest.mark.slow
def test_one_version_on_two_commits_is_refused(template: Template, tmp_path: Path, program: Program) -> None:
    child = two_releases(template, tmp_path)
    template.git("tag", "2.0.0", "v1.0.0")
    assert program(child) == 1
    assert "has 2.0.0 twice" in program.err


def test_a_tag_that_was_moved_is_told_and_its_fix_arrives(template: Template, tmp_path: Path, program: Program) -> None:
    release(template, "1.0.0", "a\n", **WITH_HASH)
    child = make_child(template, tmp_path / "child", edits={"own.txt": "mine\n"})
    template.git("branch", "old")
    template.git("tag", "--delete", "v1.0.0")
    release(template, "1.0.0", "a, with the fix\n", **WITH_HASH)
    assert program(child) == 0, program.err
    assert "v1.0.0 was moved in the template" in program.err
    assert child.read("a.txt") == "a, with the fix\n"
    child.commit("Update")
    assert program(child) == 0
    assert "nothing to do" in program.out
    assert "moved" not in program.err


@pytest.mark.slow
def test_this_family_updates_from_a_clone_without_tags(tmp_path: Path, program: Program, template: Template) -> None:
    clone = Repository(tmp_path / "family", template.copier)
    template.path.mkdir()
    template.git("clone", "--quiet", "--no-tags", str(ROOT), str(clone.path))
    older, newest = list(released(clone.path))[-2:]
    answers = [part for answer in ("project_name=child", "project_type=library") for part in ("--answer", answer)]
    command = [str(tmp_path / "child"), "--template", str(clone.path), "--version", older, *answers]
    done = run_program("new", command, ROOT, template.copier.environment())
    assert done.returncode == 0, done.stderr
    child = Child(tmp_path / "child", template.copier)
    child.git("init", "--quiet")
    child.commit("Start")
    child.edit({"Dockerfile": child.read("Dockerfile") + "# mine\n"})
    assert program(child) == 0, program.err
    assert program.out.startswith(f"v{older} -> v{newest}\n")
    assert child.read("Dockerfile").endswith("# mine\n")
    assert f"_commit: v{newest}\n" in child.read(".copier-answers.yml")
    assert f"_src_path: {clone.path}\n" in child.read(".copier-answers.yml")


@pytest.mark.slow
def test_a_child_that_names_a_commit_hears_only_what_is_new(
    template: Template, tmp_path: Path, program: Program
) -> None:
    log = "## 2.0.0\n\nA new thing.\n\n## 1.0.0\n\nAn old thing.\n"
    release(template, "1.0.0", "a\n")
    drop_tags(template)
    child = make_child(template, tmp_path / "child")
    release(template, "2.0.0", "b\n", **{"CHANGELOG.md": log})
    drop_tags(template)
    assert program(child, "--dry-run") == 0, program.err
    assert "(v1.0.0) -> v2.0.0" in program.out
    assert "A new thing." in program.out
    assert "An old thing." not in program.out


@pytest.mark.slow
def test_a_name_that_no_release_has_hides_no_fix(template: Template, tmp_path: Path, program: Program) -> None:
    release(template, "1.0.0", "a\n", **WITH_HASH)
    child = make_child(template, tmp_path / "child")
    child.edit({".copier-answers.yml": child.read(".copier-answers.yml").replace("v1.0.0", "v9.9.9")})
    release(template, "2.0.0", "b\n", **WITH_HASH)
    assert program(child) == 0, program.err
    assert "the template has no release v9.9.9" in program.err
    assert child.read("a.txt") == "b\n"
    assert "_commit: v2.0.0\n" in child.read(".copier-answers.yml")
