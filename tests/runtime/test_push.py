"""What is pushed is named by its digest, and no login stays behind. Simulated: Docker."""

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
    Path("login").write_text(sys.stdin.read() + "\\n" + os.environ["DOCKER_CONFIG"])
print(text, flush=True)
time.sleep(60 if text == "hangs" else 0)
sys.exit(code)
"""
PUSH = """
import sys
from gpu_repo_runtime.registry import push
from gpu_repo_runtime.script_error import ScriptError
try:
    print(push(*sys.argv[1:]))
except ScriptError as error:
    print(error, file=sys.stderr)
    sys.exit(error.code)
"""
DONE = [0, f"layers\nci-7: digest: {DIGEST} size: 1"]
STAGING = "host.example.com/ml/staging/it"
Push = Callable[..., Process]


@pytest.fixture
def push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Push:
    """Return a function that starts the program beside a stand-in of Docker."""
    program(tmp_path / "docker", DOCKER)
    (tmp_path / "push.py").write_text(PUSH)
    monkeypatch.chdir(tmp_path)

    def start(*answer: Any, refuses: int = 0, **variables: str) -> Process:
        Path("answers").write_text(json.dumps({"push": [answer], "login": [[refuses, "no such user"]]}))
        around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": f"{RUNTIME}:.", "TMPDIR": str(tmp_path)}
        names = ("host.example.com/ml/it:ci-7", STAGING)
        return Process("push", *names, env=around | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


def login() -> tuple[str, Path]:
    """Return the password that Docker was given, and the folder of its login."""
    password, folder = Path("login").read_text().splitlines()
    return password, Path(folder)


@pytest.mark.slow
def test_what_was_pushed_is_named_by_its_digest(push: Push) -> None:
    process = push(*DONE)
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed.strip()) == (0, f"{STAGING}@{DIGEST}"), told
    assert "layers\n" in told, "what Docker says while it pushes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "how", "code", "words"),
    [
        ([1, "denied: no right"], {}, 3, "denied: no right\nhost.example.com/ml/staging/it:ci-7 was not pushed"),
        ([0, "pushed"], {}, 3, "was not pushed"),
        (DONE, {"REGISTRY_USER": "robot"}, 2, "REGISTRY_PASSWORD is empty: the secret of robot"),
        (DONE, {"REGISTRY_PASSWORD_COMMAND": "true"}, 3, "gave no password"),
        (DONE, {"REGISTRY_PASSWORD": "x", "refuses": 1}, 3, "refused the login of no user"),
    ],
)
def test_what_was_not_pushed_is_said(push: Push, answer: Any, how: dict[str, Any], code: int, words: str) -> None:
    process = push(*answer, **how)
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed.strip(), words in told) == (code, "", True), told


def test_a_login_is_for_the_program_alone(push: Push) -> None:
    assert push(*DONE, REGISTRY_USER="robot", REGISTRY_PASSWORD_COMMAND="echo word").wait(60) == 0
    password, folder = login()
    assert (password, folder.exists()) == ("word", False)


@pytest.mark.slow
def test_a_stopped_push_leaves_no_login(push: Push) -> None:
    process = push(0, "hangs", REGISTRY_PASSWORD="word")
    end = time.monotonic() + 30
    while json.loads(Path("answers").read_text() or "{}").get("push") != [] and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert (process.returncode, login()[1].exists()) == (143, False)
