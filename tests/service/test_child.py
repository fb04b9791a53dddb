"""The service of a rendered child: its own model in the runtime, and what was written for earlier versions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tests.answers import AnswerSet
from tests.runtime.services import RUNTIME

SAME = """
from fastapi.testclient import TestClient
from gpu_repo_runtime.interface import Interface
from gpu_repo_runtime.serving.app import create_app
from gpu_repo_runtime.testing import loaded
from topic_finder.model import Model

texts = [f"{text} {n}" for n in range(16) for text in list(Model.examples)[:2]]
model = loaded(Model, "cpu")
batch = Interface(model).answers(texts)
with TestClient(create_app(Model())) as client:
    one = [client.post("/predict", json={"instances": [t]}).json()["predictions"][0] for t in texts]
    many = client.post("/predict", json={"instances": texts}).json()["predictions"]
for text, *three in zip(texts, batch, one, many, strict=True):
    assert len({p["label"] for p in three}) == 1, text
    scores = [p["score"] for p in three]
    assert max(scores) - min(scores) <= Model.tolerance, (text, scores)
"""


def environment(child: Path) -> dict[str, str]:
    """Return the environment in which Python finds a rendered service and the runtime."""
    return {"PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", "DEVICE": "cpu"}


def test_real_model_gives_the_same_alone_and_in_a_batch_of_32(render: Callable[[AnswerSet], Path]) -> None:
    child = render(AnswerSet("service", "plain"))
    subprocess.run([sys.executable, "-W", "ignore", "-c", SAME], check=True, env=environment(child))


@pytest.mark.slow
def test_the_command_of_version_0_2_starts_the_service(render: Callable[[AnswerSet], Path]) -> None:
    child = render(AnswerSet("service", "plain", layout=1))
    done = processes.run("topic_finder.serving", env=environment(child) | {"MAX_QUEUE": "0"})
    refused = "refusing to start: MAX_QUEUE: Input should be greater than or equal to 1\n"
    assert (done.returncode, done.stderr) == (78, refused)
