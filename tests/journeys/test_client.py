"""I call my service with a client that is generated from its OpenAPI schema: docs/how-to/generate-a-client.md."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/generate-a-client.md"


@pytest.fixture(scope="module", autouse=True)
def my_model_and_uv(child: Child, tmp_path_factory: pytest.TempPathFactory) -> None:
    shutil.copy(Path(__file__).parent / "own/rules.py", child.path("src/<package>/model.py"))
    programs = tmp_path_factory.mktemp("bin")
    for name in ("uv", "uvx"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    child.environment["PATH"] += f":{programs}"
    child.environment |= {"UV_PYTHON_DOWNLOADS": "never", "UV_PYTHON": "3." + str(sys.version_info.minor)}
    child.path("build").mkdir(exist_ok=True)


def test_a_client_is_generated_from_the_running_service(child: Child) -> None:
    child.follow("1. Start the service")
    child.follow("2. Generate")


def test_the_client_gets_a_price(child: Child) -> None:
    call = child.path("build/call.py")
    [code] = [block.text for block in child.blocks if block.value == "build/call.py"]
    call.write_text(code.replace("localhost:8000", f"localhost:{child.port}"))
    [command] = [block for block in child.blocks if block.section == "3. Call it" and block.mark == "expect"]
    child.sh(command.text, command.where, command.value)
