"""I do not want scripts/setup, I have uv or pip: docs/how-to/use-uv-or-pip.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/use-uv-or-pip.md"


@pytest.fixture(scope="module", autouse=True)
def my_uv(child: Child, tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = tmp_path_factory.mktemp("bin")
    (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    child.environment["PATH"] += f":{programs}"
    child.environment["UV_PYTHON_DOWNLOADS"] = "never"
    child.environment["UV_PYTHON"] = "3." + str(sys.version_info.minor)
    child.sh("rm -rf .venv")


def test_pyproject_declares_what_the_page_shows(child: Child) -> None:
    page = (Path(__file__).parents[2] / "docs" / PAGE).read_text(encoding="utf-8")
    shown = page.partition("```toml\n")[2].partition("```")[0]
    for line in shown.splitlines():
        assert line.partition(" #")[0] in child.path("pyproject.toml").read_text(), line


def test_uv_runs_the_starting_tests(child: Child) -> None:
    child.follow("With uv")


def test_pip_installs_it(child: Child) -> None:
    child.follow("With pip")
