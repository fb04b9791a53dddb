"""scripts/push's program: what is pushed is written down, and no login stays behind. Simulated: Docker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.services import RUNTIME

DIGEST = f"sha256:{'b' * 64}"
DOCKER = """#!/usr/bin/env python3
import json, os, sys, time
from pathlib import Path
place = Path(__file__).with_name("state.json")
state = json.loads(place.read_text())
state["calls"].append(sys.argv[1:])
if sys.argv[1] == "login":
    state["login"] = [sys.stdin.read(), os.environ["DOCKER_CONFIG"], os.environ.get("PYTHONPATH", "")]
    Path(os.environ["DOCKER_CONFIG"], "config.json").write_text("secret")
answer = state["answers"].pop(0) if sys.argv[1] == "push" else [state["refuses"] if sys.argv[1] == "login" else 0, ""]
place.with_suffix(".new").write_text(json.dumps(state))
place.with_suffix(".new").replace(place)
if answer[1] == "hang":
    time.sleep(60)
print(answer[1])
sys.exit(answer[0])
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


class Pushing:
    """The program beside a stand-in of Docker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.file = folder, folder / "state.json", folder / "build/image.txt"
        (folder / "docker").write_text(DOCKER)
        (folder / "docker").chmod(0o755)

    def start(self, *answers: Any, refuses: int = 0, staging: str = STAGING, **variables: str) -> subprocess.Popen[str]:
        self.state.write_text(json.dumps({"calls": [], "answers": answers, "refuses": refuses}))
        around = {"PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(RUNTIME), "TMPDIR": str(self.folder)}
        names = (f"{RELEASES}:ci-7", staging, RELEASES, "c" * 40, str(self.file))
        command = [sys.executable, "-c", PUSH, *names]
        return subprocess.Popen(
            command, env=around | {"REGISTRY_PAUSES": "0 0"} | variables, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, *answers: Any, **how: Any) -> tuple[int, str]:
        process = self.start(*answers, **how)
        told = process.communicate(timeout=60)[1]
        return process.returncode, told

    def told(self) -> Any:
        return json.loads(self.state.read_text())


@pytest.fixture
def pushing(tmp_path: Path) -> Pushing:
    return Pushing(tmp_path)


@pytest.mark.slow
def test_what_was_pushed_is_written_down_also_when_the_registry_was_busy(pushing: Pushing) -> None:
    code, told = pushing(BUSY, OWN, DONE)
    assert code == 0, told
    assert told.count("the registry is busy, trying again") == 2
    assert "layers\n" in told, "what Docker says while it pushes"
    image, commit, when = pushing.file.read_text().splitlines()
    assert (image, commit, when[-1]) == (f"{STAGING}@{DIGEST}", "c" * 40, "Z")
    assert pushing.told()["calls"][0] == ["tag", f"{RELEASES}:ci-7", f"{STAGING}:ci-7"]


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
    pushing: Pushing, answers: Any, how: dict[str, Any], code: int, words: str
) -> None:
    pushing.file.parent.mkdir()
    pushing.file.write_text("of an earlier push\n")
    found, told = pushing(*answers, **how)
    assert (found, words in told) == (code, True), told
    assert not pushing.file.exists()


def test_a_login_is_for_the_program_alone(pushing: Pushing) -> None:
    code, told = pushing(DONE, REGISTRY_USER="robot", REGISTRY_PASSWORD_COMMAND="echo word")
    assert code == 0, told
    password, folder, _ = pushing.told()["login"]
    assert (password, Path(folder).exists()) == ("word\n", False)


@pytest.mark.slow
def test_a_stopped_push_leaves_no_login(pushing: Pushing) -> None:
    process = pushing.start([0, "hang"], REGISTRY_PASSWORD="word")
    end = time.monotonic() + 30
    while not any(call[0] == "push" for call in pushing.told()["calls"]) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not Path(pushing.told()["login"][1]).exists()
