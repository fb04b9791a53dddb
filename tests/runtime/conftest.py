"""The runtime around a stand-in model; nothing is rendered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runtime import standin_model
from tests.runtime.services import PACKAGE, start  # noqa: F401 - fixtures
from tests.runtime.weights_projects import own_cache, project, web  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what an owner writes: a package with the stand-in as its model.py."""
    folder = tmp_path_factory.mktemp("runtime") / "child"
    package = folder / "src" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(standin_model.__file__, package / "model.py")
    return folder
