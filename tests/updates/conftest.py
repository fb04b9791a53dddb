"""The Copier that a test runs, and its tiny template."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.updates.copiers import Copier, installed, minimum_version, newest_version
from tests.updates.program import Program
from tests.updates.tiny import Template

LABELS = ["newest"] if minimum_version() == newest_version() else ["newest", "oldest"]


@pytest.fixture(params=LABELS)
def copier(request: pytest.FixtureRequest, tmp_path: Path) -> Copier:
    """Return the newest and the oldest supported Copier in turn, with a cache of their own."""
    return installed(request.param, tmp_path / "copier-home")


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
