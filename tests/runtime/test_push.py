"""scripts/push's program: what is pushed is written down, and no login stays behind. Simulated: Docker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Process
from tests.runtime.services import RUNTIME
from tests.shared import program

DIGEST = f"sha256:{'b' * 64}"
# Each call of an action gets the next of its answers: an exit code, and what is printed.
DOCKER = """#!/usr/bin/env python3
import json, os, sys, time
from pathlib import Path
answers, action = json.loads(Path("answers").read_text()), sys.argv[1]
code, text = answers[action].pop(0) if action in answers else (0, "")
Path("answers").write_text(json.dumps(answers))
if action == "login":
    Path(os.environ["DOCKER_CONFIG"], "config.json").write_text("secret")
    Path("login").write_text(sys.stdin.read() + os.environ["DOCKER_CONFIG"])
print(text, flush=True)
time.sleep(60 if text == "hangs" else 0)
sys.exit(code)
"""
PUSH = """
import sys
from pathlib import Path
from gpu_repo_runtime.registry import RegistryError, push
try:
    push(*sys.argv[1:-1], Path(sys.argv[-1]))
except RegistryError as error:
    print(error, file=sys.stderr)
    sys.exit(error.code)
"""
DONE = [0, f"layers\nci-7: digest: {DIGEST} size: 1"]
BUSY = [1, "received unexpected HTTP status: 503 Service Unavailable"]
OWN = [1, "layer: Pushed\nunknown: slow down"]  # a 429 with a code of its own
STAGING, RELEASES = "host.example.com/ml/staging/it", "host.example.com/ml/it"
FILE = "image.txt"
Push = Callable[..., Process]


@pytest.fixture
def push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Push:
    """Return a function that starts the program beside a stand-in of Docker."""
    program(tmp_path / "docker", DOCKER)
    (tmp_path / "push.py").write_text(PUSH)
    monkeypatch.chdir(tmp_path)

    def start(*answers: Any, refuses: int = 0, staging: str = STAGING, **variables: str) -> Process:
        Path("answers").write_text(json.dumps({"push": answers, "login": [[refuses, ""]]}))
        around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": f"{RUNTIME}:.", "TMPDIR": str(tmp_path)}
        names = (f"{RELEASES}:ci-7", staging, RELEASES, "c" * 40, FILE)
        return Process("push", *names, env=around | {"REGISTRY_PAUSES": "0 0"} | variables, stderr=subprocess.PIPE)

    return start


def login() -> tuple[str, Path]:
    """Return the password that Docker was given, and the folder of its login."""
    password, folder = Path("login").read_text().splitlines()
    return password, Path(folder)


@pytest.mark.slow
def test_what_was_pushed_is_written_down_also_when_the_registry_was_busy(push: Push) -> None:
    process = push(BUSY, OWN, DONE)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 0, told
    assert told.count("the registry is busy, trying again") == 2
    assert "layers\n" in told, "what Docker says while it pushes"
    image, commit, when = Path(FILE).read_text().splitlines()
    assert (image, commit, when[-1]) == (f"{STAGING}@{DIGEST}", "c" * 40, "Z")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "how", "code", "words"),
    [
        ([[1, "layer: Retrying in 5 seconds\ndenied: no right"]], {}, 3, "was not pushed: denied: no right"),
        ([BUSY] * 3, {}, 3, "was not pushed: received"),
        ([[0, "pushed"]], {}, 3, "said no digest"),
        ([DONE], {"staging": "other.example.com/x"}, 2, "STAGING is in another registry"),
        ([DONE], {"REGISTRY_USER": "robot"}, 2, "REGISTRY_PASSWORD is empty: the secret of robot"),
        ([DONE], {"REGISTRY_PASSWORD_COMMAND": "true"}, 3, "gave no password"),
        ([DONE], {"REGISTRY_PASSWORD": "x", "refuses": 1}, 3, "refused the login of (no REGISTRY_USER)"),
    ],
)
def test_what_was_not_pushed_is_said_and_nothing_is_written(
    push: Push, answers: Any, how: dict[str, Any], code: int, words: str
) -> None:
    Path(FILE).write_text("of an earlier push\n")
    process = push(*answers, **how)
    told = process.communicate(timeout=60)[1]
    assert (process.returncode, words in told, Path(FILE).exists()) == (code, True, False), told


def test_a_login_is_for_the_program_alone(push: Push) -> None:
    assert push(DONE, REGISTRY_USER="robot", REGISTRY_PASSWORD_COMMAND="echo word").wait(60) == 0
    password, folder = login()
    assert (password, folder.exists()) == ("word", False)


@pytest.mark.slow
def test_a_stopped_push_leaves_no_login(push: Push) -> None:
    process = push([0, "hangs"], REGISTRY_PASSWORD="word")
    end = time.monotonic() + 30
    while json.loads(Path("answers").read_text() or "{}").get("push") != [] and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert (process.returncode, login()[1].exists()) == (143, False)
