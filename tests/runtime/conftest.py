"""The runtime around a stand-in model; nothing is rendered."""

from __future__ import annotations

import importlib
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient

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


@pytest.fixture(scope="session")
def serving() -> Callable[[str], ModuleType]:
    """Return a function that imports a module of the runtime's service."""
    return lambda name: importlib.import_module(f"gpu_repo_runtime.serving.{name}")


@pytest.fixture(scope="module")
def app(serving: Callable[[str], ModuleType]) -> Any:
    """Return the service around the stand-in, with small limits."""
    chosen = serving("settings").Settings(
        device="cpu",
        max_texts=8,
        max_text_chars=100,
        max_body_bytes=2000,
        app_version="1.2.3",
        app_image="image@sha256:0",
    )
    return serving("app").create_app(standin_model.Model(), chosen)


@pytest.fixture(scope="module")
def client(app: Any) -> Iterator[TestClient]:
    """Return a client of it in process, which gets every error as an answer."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What the log says of each request, but for times."""
    found: list[dict[str, Any]] = []
    logger, handler = logging.getLogger("request"), logging.Handler()
    timed = {"ms", "queue_ms", "request_id"}
    handler.emit = lambda record: found.append(  # type: ignore[method-assign]
        {"level": record.levelname, **{name: value for name, value in record.fields.items() if name not in timed}}  # type: ignore[attr-defined]
    )
    logger.addHandler(handler)
    before, level = logger.level, logging.INFO
    logger.setLevel(level)
    yield found
    logger.setLevel(before)
    logger.removeHandler(handler)
