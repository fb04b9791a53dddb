"""The runtime has no type error; mypy's part of it is in `make lint`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.runtime.services import RUNTIME
from tests.templates.typed import UNTYPED, pyright

# What only some children have; here they are Any.
ELSEWHERE = ("torch", "opentelemetry", "fsspec", "onnxruntime", "ray", "jax", "optax", "orbax", "accelerate")


@pytest.mark.slow
def test_pyright_finds_nothing(tmp_path: Path) -> None:
    assert pyright([RUNTIME], [RUNTIME], (*UNTYPED, *ELSEWHERE), tmp_path, sys.executable) == ""
