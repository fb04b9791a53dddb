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
from tests.sampling import sampled

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
    own = {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "DEVICE": "cpu", "PORT": "0", **environment}
    return processes.run("gpu_repo_runtime.serving", PACKAGE, *options, env=own)


def test_own_settings_stand_in_the_help_and_are_asked_for(child: Path, package: Path) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    listed = run(child, "--help")
    assert listed.returncode == 0, listed.stderr
    assert all(words in listed.stdout for words in ("GREETING=", "What /hello says", "MAX_QUEUE=1024"))
    refused = run(child)
    assert (refused.returncode, refused.stderr) == (78, "refusing to start: GREETING: Field required\n")


LIFESPAN = """from contextlib import asynccontextmanager
@asynccontextmanager
async def own(app):
    {}
    yield
def extend(app, service):
    app.router.lifespan_context = own
"""
# What service.py contains, the exit code, words of the output.
WRONG = {
    "extend raises": ("def extend(app, service):\n    raise RuntimeError('pip install x')\n", 1, "x; add it to py"),
    "import ends the process": ("raise SystemExit(0)\n", 1, "service.py:1: SystemExit"),
    "a middleware of no token": (
        "from gpu_repo_runtime.serving.auth import BearerToken\n"
        "def extend(app, service):\n    app.add_middleware(BearerToken, token='')\n",
        1,
        "service.py cannot be used: ValueError: the token is empty",
    ),
    "its lifespan raises": (LIFESPAN.format("raise RuntimeError('the database is down')"), 1, "the database is down"),
}


@pytest.mark.parametrize("case", sampled(WRONG, ["import ends the process"]))
def test_a_service_py_that_fails_ends_the_start_with_its_words_and_never_with_0(
    child: Path, package: Path, case: str
) -> None:
    text, code, words = WRONG[case]
    package.write_text(text)
    done = run(child, LISTEN_HOST="127.0.0.1")
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_the_process_serves_the_owners_route_and_warns_of_settings_that_are_not_used(
    start: Callable[..., Any], package: Path
) -> None:
    package.write_text(textwrap.dedent(SERVICE))
    service = start(GREETING="good morning", GREETINGS="x", MAX_BATCHSIZE="64", DEVICE_PLUGIN_PORT="1")
    assert service.get("/hello") == (200, '"good morning"')
    log = service.log.read_text()
    assert "did you mean GREETING?" in log
    assert "did you mean MAX_BATCH_SIZE?" in log
    assert "DEVICE_PLUGIN_PORT" not in log, "others' variables"


@pytest.mark.slow
def test_settings_that_do_not_extend_the_services_are_named(start: Callable[..., Any], package: Path) -> None:
    package.write_text("class Settings: ...\n")
    assert "service.py: Settings is not used: let it extend" in start().log.read_text()


@pytest.mark.slow
def test_a_lifespan_that_replaces_the_services_own_leaves_the_model_loaded(
    start: Callable[..., Any], package: Path
) -> None:
    package.write_text(LIFESPAN.format("pass"))
    assert start().predict("text")[0] == 200
