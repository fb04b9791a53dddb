"""A rendered service with a stand-in model, in process and as a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.runtime import standin_model
from tests.runtime.services import PACKAGE, start  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def child(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a rendered service whose owner has put the stand-in into model.py."""
    folder = tmp_path_factory.mktemp("service") / "child"
    shutil.copytree(render(AnswerSet("service", "plain")), folder)
    shutil.copy(standin_model.__file__, folder / "src" / PACKAGE / "model.py")
    return folder
