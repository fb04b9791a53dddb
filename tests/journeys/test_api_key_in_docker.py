"""The same page in containers, on the image plain-cu13: `make test-images`. The steps run in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journeys import test_api_key
from tests.journeys.child import Child

TYPE = "service"
PAGE = test_api_key.PAGE
pytestmark = [pytest.mark.images, pytest.mark.row("plain-cu13")]


@pytest.fixture(scope="module", autouse=True)
def in_docker(child: Child) -> Iterator[None]:
    """Work without .venv, as CI does, with the key of the page and data that git ignores."""
    child.path("src/<package>/model.py").write_text((test_api_key.OWN / "rules.py").read_text())
    for block in child.blocks:
        if block.value in ("src/<package>/service.py", ".env"):
            child.path(block.value).write_text(block.text)
    child.sh("mkdir data && touch data/rows.csv && echo /data/ >>.gitignore")
    child.environment["RUN_IN"] = "docker"
    yield
    child.sh("docker image rm --force $(docker image ls --quiet '*/*/parcel-prices')")


def test_lint_and_tests_pass_in_the_image(child: Child) -> None:
    child.sh("scripts/lint && scripts/test", expect="passed")


def test_data_that_git_ignores_is_not_in_the_image(child: Child) -> None:
    [image] = child.sh("docker image ls --format '{{.Repository}}:{{.Tag}}' '*/*/parcel-prices:*-test'").split()
    assert "data" not in child.sh(f"docker run --rm {image} ls").split()


def test_the_container_gets_the_key(child: Child) -> None:
    child.sh("scripts/probe", expect="started, answered and stopped")
