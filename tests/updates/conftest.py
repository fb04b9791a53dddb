"""The Copier that a test runs, and its tiny template."""

from pathlib import Path

import pytest

from tests.updates.copiers import Copier, copier_at
from tests.updates.tiny import Program, Template


def pytest_itemcollected(item: pytest.Item) -> None:
    """The family is made of the releases in this repository's history."""
    if "family" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("the history of git"))


@pytest.fixture
def copier(tmp_path: Path) -> Copier:
    """Return Copier with a cache of its own."""
    return copier_at(tmp_path / "copier-home")


@pytest.fixture
def template(copier: Copier, tmp_path: Path) -> Template:
    """Return a template without a version yet; it hides the whole family of the other tests."""
    return Template(tmp_path / "template", copier)


@pytest.fixture
def program(copier: Copier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Return the safe update as a program, with the test's own settings of git and Copier."""
    for name, value in copier.environment().items():
        monkeypatch.setenv(name, value)
    return Program(monkeypatch, capsys)
