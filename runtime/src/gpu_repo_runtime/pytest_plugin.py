"""Fixtures for the tests of a project. pytest loads them wherever the runtime is installed.

`cuda` is the GPU, or skips the test; `model` is the project's own model on the CPU. A fixture of the same name in the
project's conftest.py takes precedence.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from .testing import cuda as cuda
from .testing import loaded


@pytest.fixture(scope="session")
def model(pytestconfig: pytest.Config) -> Any:
    """Return the class `Model` of src/*/model.py, loaded on the CPU."""
    found = sorted(pytestconfig.rootpath.glob("src/*/model.py"))
    if len(found) != 1:
        pytest.fail(f"expected one model.py in src/, found {len(found)}: write a fixture `model`", pytrace=False)
    return loaded(importlib.import_module(f"{found[0].parent.name}.model").Model, "cpu")
