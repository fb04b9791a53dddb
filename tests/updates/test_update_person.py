"""Who runs a program does not matter: their settings of Copier, and a locale that is not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from new import NewError, check_settings
from releasekit.template import render

from tests.sampling import every, sampled
from tests.updates.copiers import ROOT, Copier
from tests.updates.program import Program
from tests.updates.tiny import Child, Template, make_child, write_files

ASKS = "title: {type: str, default: x}\n"
BROKEN = ("x: [", "", "defaults: 3", "- a", "a\udcff", "trust: 3")
OTHER_LETTERS = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # as in a locale that is not UTF-8


def settings_of(copier: Copier) -> Path:
    """Return where the settings of a person lie."""
    return Path(copier.environment()["COPIER_SETTINGS_PATH"])


@pytest.mark.parametrize("text", sampled(["x: [", "defaults: {more: mine, title: mine}"], every(2)))
def test_a_persons_settings_of_copier_do_not_reach_an_update(
    template: Template, program: Program, tmp_path: Path, text: str
) -> None:
    template.release("v1.0.0", {"a.txt.jinja": "a {{ title }}\n"}, ASKS)
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt.jinja": "a {{ title }} {{ more }}\n"}, ASKS + "more: {type: str, default: y}\n")
    settings_of(template.copier).write_text(text)
    assert program(child) == 0, program.err
    assert child.read("a.txt") == "a x y\n"


def test_a_persons_settings_of_copier_do_not_reach_the_release_check(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt.jinja": "a {{ title }}\n"}, ASKS)
    for name, value in template.copier.environment().items():
        monkeypatch.setenv(name, value)
    settings_of(template.copier).write_text("x: [")
    render(template.path, {}, tmp_path / "made")
    assert (tmp_path / "made" / "a.txt").read_text() == "a x\n"


@pytest.mark.parametrize("text", BROKEN)
def test_settings_that_copier_cannot_read_are_named_to_who_starts_a_repository(
    copier: Copier, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    settings = settings_of(copier)
    settings.write_bytes(os.fsencode(text))
    monkeypatch.setenv("COPIER_SETTINGS_PATH", str(settings))
    with pytest.raises(NewError, match=rf"your settings of Copier, {settings}, cannot be read: fix or remove") as said:
        check_settings()
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("text", ["", "{}", "defaults: {registry: registry.example.com}"])
def test_settings_that_copier_reads_are_a_persons_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.delenv("COPIER_SETTINGS_PATH", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write_files(tmp_path, {"copier/settings.yml": text} if text else {})
    check_settings()
    write_files(tmp_path, {"copier/settings.yml": "x: ["})
    with pytest.raises(NewError):
        check_settings()


def run(copier: Copier, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run a program of this repository as somebody whose locale knows no letter but those of ASCII."""
    command = [sys.executable, "-W", "ignore", ROOT / program, *arguments]
    return subprocess.run(command, env=copier.environment() | OTHER_LETTERS, capture_output=True, check=False)


def named_in_other_letters(template: Template, folder: Path) -> Child:
    """Return a child with letters of its own in its folder, files, answers and texts; 2.0.0 collides with one."""
    template.release("v1.0.0", {"größe.txt": "a\n", "weg-é.txt": "x\n"}, "title: {type: str, default: é}\n")
    child = make_child(template, folder / "kind-ö", edits={"größe.txt": "mein ü\n", "weg-é.txt": "mein é\n"})
    template.release("v2.0.0", {"größe.txt": "ä\n", "neu-ñ.txt": "ñ\n"}, "title: {type: str, default: é}\n")
    return child


def test_an_update_keeps_names_and_texts_in_a_locale_that_cannot_write_them(template: Template, tmp_path: Path) -> None:
    child = named_in_other_letters(template, tmp_path)
    done = run(template.copier, "hooks/safe_update.py", "--diff", "--repository", child.path)
    told = done.stdout.decode()
    assert done.returncode == 3, told + done.stderr.decode()
    assert "+++ b/neu-ñ.txt\n" in told
    assert "conflict   größe.txt: both sides changed the same lines" in told
    assert "conflict   weg-é.txt: the template dropped it" in told
    assert (child.read("weg-é.txt"), child.read("neu-ñ.txt")) == ("mein é\n", "ñ\n")
    assert "mein ü\n=======\nä\n" in child.read("größe.txt")
    assert "title: é\n" in child.read(".copier-answers.yml")


@pytest.mark.slow
def test_a_repository_is_started_in_a_locale_that_cannot_write_its_words(copier: Copier, tmp_path: Path) -> None:
    given = ("--answer", "project_name=topic-finder", "--answer", "description=Größe", "--version", "HEAD")
    done = run(copier, "tools/new.py", tmp_path / "neu-é", *given)
    assert done.returncode == 0, done.stderr.decode()
    assert f"{tmp_path}/neu-é is ready." in done.stdout.decode()
    assert "description: Größe\n" in (tmp_path / "neu-é" / ".copier-answers.yml").read_text(encoding="utf-8")
