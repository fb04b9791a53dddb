"""The engine, the rows and the built images that the tests of this folder share."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.images import Image
from image_tools import build
from image_tools.catalog import DEFAULT_REGISTRY, find_row, live_rows, read_catalog

from tests.shared import once

from .small_image import Bench, make_base

CATALOG = read_catalog()
os.environ["UNKNOWN_ROOTS"] = "allow"  # the machine that tests may trust more than Debian does; nothing is released
WANTED = os.environ.get("IMAGE", "")
ROWS = [row["name"] for row in live_rows(CATALOG) if WANTED in ("", row["name"])]


class Built:
    """One built image and how to run something in it."""

    def __init__(self, client: docker.DockerClient, row: dict[str, Any], image: Image) -> None:
        self.client, self.row, self.image = client, row, image
        self.name, self.tag = row["name"], image.tags[0]

    def run(self, *command: str, **options: Any) -> str:
        """Run a command in a fresh container without network; return its standard output; raise ContainerError."""
        options = {"network_mode": "none", "remove": True, "stderr": False} | options
        return self.client.containers.run(self.tag, list(command), **options).decode()

    def python(self, code: str, **options: Any) -> str:
        """Run Python code in a fresh container; return what it printed, stripped."""
        return self.run("python", "-c", code, **options).strip()


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    """A client of the Docker Engine; without one these tests fail, they are never skipped."""
    try:
        engine = docker.from_env(timeout=900)
        engine.ping()
    except docker.errors.DockerException as error:
        pytest.fail(f"no Docker Engine answers ({error}): start one, or set DOCKER_HOST", pytrace=False)
    yield engine
    engine.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that takes `image` once per row, all tests of a row together; unless it names its own rows."""
    own = any("image" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "image" in metafunc.fixturenames and not own:
        metafunc.parametrize("image", ROWS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def image(client: docker.DockerClient, request: pytest.FixtureRequest) -> Built:
    """A row's image, built now; with the engine's cache this takes a second when nothing changed."""
    name = request.param
    build.build(CATALOG, argparse.Namespace(image=name, registry=DEFAULT_REGISTRY, devel=False))
    return Built(client, find_row(CATALOG, name), client.images.get(build.local_tag(CATALOG, name, DEFAULT_REGISTRY)))


@pytest.fixture(scope="session")
def original(shared: Path) -> Path:
    """A folder with a small environment and a base in it, made once."""

    def make(folder: Path) -> None:
        folder.mkdir()
        make_base(folder)

    return once(shared / "small-image", make)


@pytest.fixture
def bench(original: Path, tmp_path: Path) -> Bench:
    """A copy of its environment for one test; the base beside it is read only."""
    shutil.copytree(original, tmp_path / "image", symlinks=True, ignore=shutil.ignore_patterns("base", "of-the-base"))
    return Bench(tmp_path / "image", original / "base")
