"""An owner's service.py in the process that serves: its settings, its routes, its mistakes."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.runtime.services import PACKAGE, RUNTIME
from tests.sampling import every, sampled

SERVICE = """
    from gpu_repo_runtime.serving import settings
    from pydantic import Field


    class Settings(settings.Settings):
        greeting: str = Field(description="What /hello says")


    def extend(app, service):
        @app.get("/hello")
        async def hello():
            return service.settings.greeting
"""


@pytest.fixture
def package(child: Path) -> Iterator[Path]:
    """Return where the service.py of the stand-in's package is written; it is gone after the test."""
    path = child / "src" / PACKAGE / "service.py"
    yield path
    path.unlink(missing_ok=True)


def run(child: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "DEVICE": "cpu", **environment}
    return processes.run("gpu_repo_runtime.serving", PACKAGE, *options, env=own)


def test_own_settings_stand_in_the_help_and_in_the_list_and_are_asked_for(child: Path, package: Path) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    for option in ("--settings", "--help"):
        listed = run(child, option)
        assert listed.returncode == 0, listed.stderr
        assert "GREETING=" in listed.stdout
        assert "What /hello says" in listed.stdout
        assert "MAX_QUEUE=256" in listed.stdout
    refused = run(child)
    assert (refused.returncode, refused.stderr) == (78, "refusing to start: GREETING: Field required\n")


@pytest.mark.parametrize(
    ("text", "words"),
    sampled(
        [
            ("import torhc\n", "service.py:1: ModuleNotFoundError: No module named 'torhc'"),
            ("def extend(app, service):\n    raise RuntimeError('no')\n", "RuntimeError: no"),
            (
                "def extend(app, service):\n    app.add_api_route('/predict', print, methods=['POST'])\n",
                "is a route of the service",
            ),
        ],
        every(3),
    ),
    ids=["missing package", "raises", "takes a path"],
)
def test_a_service_py_that_fails_ends_the_start_with_its_words(
    child: Path, package: Path, text: str, words: str
) -> None:
    package.write_text(text)
    done = run(child)
    assert done.returncode in (1, 78)
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "code", "words"),
    sampled(
        [
            ("raise SystemExit(0)\n", 1, "service.py:1: SystemExit"),
            ("def extend(app, service):\n    raise SystemExit(0)\n", 1, "SystemExit"),
            (
                "from gpu_repo_runtime.serving.auth import BearerToken\n"
                "def extend(app, service):\n    app.add_middleware(BearerToken, token='')\n",
                78,
                "a middleware of service.py cannot be made: ValueError: the token is empty",
            ),
            (
                "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def down(app):\n"
                "    raise RuntimeError('the database is down')\n    yield\n"
                "def extend(app, service):\n    app.router.lifespan_context = down\n",
                1,
                "the database is down",
            ),
            (
                "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def mine(app):\n    yield\n"
                "def extend(app, service):\n    app.router.lifespan_context = mine\n",
                78,
                "service.py replaced the lifespan of the application",
            ),
        ],
        every(5),
    ),
    ids=["import", "extend", "middleware", "lifespan raises", "lifespan replaced"],
)
def test_what_does_not_start_says_why_and_never_ends_with_0(
    child: Path,
    package: Path,
    text: str,
    code: int,
    words: str,
) -> None:
    package.write_text(text)
    done = run(child, PORT="0", LISTEN_HOST="127.0.0.1")
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_a_package_that_ends_the_process_while_its_settings_are_listed_says_so(
    child: Path,
    package: Path,
) -> None:
    package.write_text("raise SystemExit(0)\n")
    done = run(child, "--settings")
    assert (done.returncode, "service.py ended the process" in done.stderr) == (1, True)


def test_the_process_serves_the_owners_route_and_warns_of_settings_that_are_not_used(
    start: Callable[..., Any], package: Path
) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    service = start(GREETING="good morning", GREETINGS="x")
    assert service.get("/hello") == (200, '"good morning"')
    assert "did you mean GREETING?" in service.log.read_text()
    package.write_text("class Settings: ...\n")
    service = start()
    assert "service.py: Settings is not used: let it extend" in service.log.read_text()
