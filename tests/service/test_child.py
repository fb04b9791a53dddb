"""The service of a rendered child: what was written for earlier versions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tests.answers import AnswerSet
from tests.runtime.services import RUNTIME


def environment(child: Path) -> dict[str, str]:
    """Return the environment in which Python finds a rendered service and the runtime."""
    return {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "DEVICE": "cpu"}


@pytest.mark.slow
def test_the_command_of_version_0_2_starts_the_service(render: Callable[[AnswerSet], Path]) -> None:
    child = render(AnswerSet("service", "plain", layout=1))
    done = processes.run("topic_finder.serving", env=environment(child) | {"MAX_QUEUE": "0"})
    refused = "refusing to start: MAX_QUEUE: Input should be greater than or equal to 1\n"
    assert (done.returncode, done.stderr) == (78, refused)
