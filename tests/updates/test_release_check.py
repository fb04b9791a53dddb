"""The release check: what would hurt children is refused by name, and what is listed as retired is let through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import release_check

from tests.updates.copiers import ROOT, installed
from tests.updates.tiny import Template, write_files

Files = dict[str, str]
SETTINGS = """
_subdirectory: t
_exclude:
  - |
    {% if flavour == 'a' %}
    only-b
    {% endif %}
project_name: {type: str, default: x}
flavour: {type: str, choices: [a, b], default: a}
gpu: {type: bool, default: true}
"""
GOOD: Files = {
    "copier.yml": SETTINGS,
    "VERSION": "1.0.0\n",
    "CHANGELOG.md": "## 1.0.0\n",
    "base-images/catalog.yml": "images: [{name: one, state: supported}, {name: two, state: supported}]\n",
    "templates/retired.yml": "[]\n",
    "t/.copier-ownership.yml": "managed: {scripts/: s, only-b: b, .copier-ownership.yml: l, '.copier-*.yml': a}\n"
    "seed: {README.md: r}\n",
    "t/scripts/build": "build\n",
    "t/README.md": "readme\n",
    "t/only-b": "b\n",
}


def change(**files: str | None) -> Callable[[Files], Files]:
    """Return a change of GOOD: names with / and . written as __ and _dot_; None removes a file."""

    def apply(good: Files) -> Files:
        named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
        return {name: text for name, text in (good | named).items() if text is not None}

    return apply


def retire(kind: str, name: str) -> str:
    """Return the text of templates/retired.yml with one entry."""
    return f"[{{kind: {kind}, name: {name}, version: 1.1.0, reason: none needs it}}]\n"


LISTS = GOOD["t/.copier-ownership.yml"]
ALL_MANAGED = LISTS.replace("seed: {README.md: r}", "seed: {}").replace("{scripts/", "{README.md: r, scripts/")
ONE_IMAGE = "images: [{name: one, state: supported}]\n"
RETIRED_IMAGE = "images: [{name: one, state: supported}, {name: two, state: retired}]\n"
REFUSED = {
    "a file is gone": (change(t__scripts__build=None, t__scripts__new="n"), "scripts/build (a True) is gone"),
    "a file of one flavour is gone": (change(**{"t__only-b": None}), "only-b (b True) is gone"),
    "a choice is gone": (change(copier_dot_yml=SETTINGS.replace("[a, b]", "[a]")), "the choice b of flavour is gone"),
    "a question is gone": (
        change(copier_dot_yml=SETTINGS.replace("gpu: {type: bool, default: true}\n", "")),
        "the question gpu is gone",
    ),
    "an image is gone": (change(**{"base-images__catalog_dot_yml": ONE_IMAGE}), "the image two is gone"),
    "an image is retired": (change(**{"base-images__catalog_dot_yml": RETIRED_IMAGE}), "the image two is gone"),
    "a task": (change(copier_dot_yml=SETTINGS + "_tasks: ['true']\n"), "copier.yml has _tasks"),
    "a migration": (
        change(copier_dot_yml=SETTINGS + "_migrations: [{version: v1.1.0, command: 'true'}]\n"),
        "copier.yml has _migrations",
    ),
    "an extension": (change(copier_dot_yml=SETTINGS + "_jinja_extensions: [jinja2.ext.do]\n"), "_jinja_extensions"),
    "a seed becomes managed": (
        change(**{"t___dot_copier-ownership_dot_yml": ALL_MANAGED}),
        "README.md (a True) was the owner's",
    ),
    "a file on no list": (change(t__new="n"), "new (a True) is on neither list"),
    "a version is left out": (change(VERSION="1.2.1\n"), "VERSION is 1.2.1, which does not follow 1.0.0"),
    "no changelog": (change(VERSION="1.1.0\n"), "CHANGELOG.md has no section '## 1.1.0'"),
    "an entry without a reason": (change(templates__retired_dot_yml="[{kind: file, name: x}]\n"), "lacks version"),
}  # fmt: skip
ALLOWED = {
    "nothing changes": change(),
    "a file changes": change(t__scripts__build="better\n"),
    "a listed file is gone": change(
        **{"t__only-b": None, "templates__retired_dot_yml": retire("file", "only-b")}
    ),
    "a listed choice is gone": change(
        copier_dot_yml=SETTINGS.replace("[a, b]", "[a]"), templates__retired_dot_yml=retire("choice", "flavour=b")
    ),
    "a listed image is retired": change(
        **{"base-images__catalog_dot_yml": RETIRED_IMAGE, "templates__retired_dot_yml": retire("image", "two")}
    ),
    "the next version": change(VERSION="1.1.0\n", CHANGELOG_dot_md="## 1.1.0\n\n## 1.0.0\n"),
    "the next version in the making": change(VERSION="1.0.1.dev0\n"),
}  # fmt: skip


def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: Files) -> int:
    """Release GOOD as 1.0.0, put `changed` into the work tree and run the check on it."""
    copier = installed("newest", tmp_path / "copier-home")
    for name, value in copier.environment().items():
        monkeypatch.setenv(name, value)
    template = Template(tmp_path / "template", copier)
    answers_file = {"t/{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}"}
    template.release("v1.0.0", GOOD | answers_file, GOOD["copier.yml"])
    for name in GOOD.keys() - changed.keys():
        (template.path / name).unlink()
    write_files(template.path, changed)
    monkeypatch.setattr(sys, "argv", ["release_check", "--repository", str(template.path)])
    return release_check.main()


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_hurt_children_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply, reason = REFUSED[case]
    assert checked(tmp_path, monkeypatch, apply(GOOD)) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("case", ALLOWED)
def test_what_children_can_take_is_let_through(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(tmp_path, monkeypatch, ALLOWED[case](GOOD)) == 0, capsys.readouterr().err


def test_the_reviewer_sees_the_rendered_difference_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(tmp_path, monkeypatch, change(t__scripts__build="better\n")(GOOD)) == 0
    out = capsys.readouterr().out
    assert out.count("-build\n+better\n") == 1
    assert "== 4 answer sets" in out


def test_the_family_has_every_file_on_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(installed("newest", tmp_path / "home").home / "gitconfig"))
    new = tmp_path / "new"
    release_check.export(ROOT, release_check.work_tree(ROOT), new)
    check = release_check.Check(new, new, (ROOT / "VERSION").read_text().strip())
    check.check_settings()
    check.check_images()
    sets = [answers for answers in release_check.answer_sets(new) if answers["gpu_driver"] == "580"]
    monkeypatch.setattr(release_check, "answer_sets", lambda _: [s for s in sets if s["framework"] == "plain"])
    assert dict(check.differences(tmp_path)).values(), "no answer set was rendered"
    assert check.refused == []
