"""Who runs a program does not matter: an update never reads their settings of Copier; `make new` says what is wrong."""

import os
from pathlib import Path

import pytest
from new import NewError, check_settings
from releasekit.template import render

from tests.sampling import every, sampled
from tests.updates.copiers import Copier
from tests.updates.program import Program
from tests.updates.tiny import Template, make_child

ASKS = "title: {type: str, default: x}\n"
BROKEN = ("x: [", "", "defaults: 3", "- a", "a\udcff", "trust: 3")


def settings_of(copier: Copier) -> Path:
    """Return where the settings of a person lie."""
    return Path(copier.environment()["COPIER_SETTINGS_PATH"])


@pytest.mark.parametrize("text", sampled(["x: [", "defaults: {more: mine, title: mine}"], every(2)))
def test_they_do_not_reach_an_update_or_the_release_check(
    template: Template, program: Program, tmp_path: Path, text: str
) -> None:
    template.release("v1.0.0", {"a.txt.jinja": "a {{ title }}\n"}, ASKS)
    child = make_child(template, tmp_path / "child")
    template.release("v2.0.0", {"a.txt.jinja": "a {{ title }} {{ more }}\n"}, ASKS + "more: {type: str, default: y}\n")
    settings_of(template.copier).write_text(text)
    assert program(child) == 0, program.err
    assert child.read("a.txt") == "a x y\n"
    render(template.path, {}, tmp_path / "made")
    assert (tmp_path / "made" / "a.txt").read_text() == "a x y\n"


@pytest.mark.parametrize("text", BROKEN)
def test_those_that_copier_cannot_read_are_named_to_who_starts_a_repository(
    copier: Copier, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    settings = settings_of(copier)
    settings.write_bytes(os.fsencode(text))
    monkeypatch.setenv("COPIER_SETTINGS_PATH", str(settings))
    with pytest.raises(
        NewError, match=rf"your settings of Copier, {settings}, cannot be read: fix or remove them [^\n]*$"
    ):
        check_settings()
