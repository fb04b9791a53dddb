"""A secret in the environment, in .env or in a request shows up in nothing that a child prints, logs or writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import TYPES, AnswerSet
from tests.runtime import standin_model
from tests.runtime.services import PACKAGE, RUNTIME, Process
from tests.sampling import sampled
from tests.templates.own import own_copy, stand_in

CANARY = "canary-7f3a9c"
DOCKER = """
# A Docker that writes down what it was called with, as the list of processes would show it.
printf '%s\\n' "$*" >>"$DOCKER_LOG"
case "$1 $2" in "info --format") echo '{}' ;; esac
"""


def secret_environment(**more: str) -> dict[str, str]:
    """Return this environment with a secret under several usual names."""
    names = ("API_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HF_TOKEN", "PIP_INDEX_URL")
    return {**os.environ, **dict.fromkeys(names, CANARY), "PIP_INDEX_URL": f"https://u:{CANARY}@index.invalid/", **more}


def leaks(folder: Path) -> list[str]:
    """Return the files under `folder` that hold the canary, .env aside."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".env"]
    return [path.relative_to(folder).as_posix() for path in files if CANARY.encode() in path.read_bytes()]


@pytest.fixture(params=sampled(TYPES, ["service"]))
def child(request: pytest.FixtureRequest, render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a rendered child of each type with a secret in its .env."""
    folder = own_copy(render(AnswerSet(request.param, "plain")), tmp_path)
    (folder / ".env").write_text(f"MY_SECRET={CANARY}\n", encoding="utf-8")
    return folder


@pytest.mark.slow
def test_scripts_print_no_secret(child: Path, tmp_path: Path) -> None:
    """Help, a wrong option, and the way into Docker, whose command line every user of the machine can read."""
    log, path = tmp_path / "docker.log", f"{tmp_path}/bin:{os.environ['PATH']}"
    stand_in(child, "docker", DOCKER)
    environment = secret_environment(RUN_IN="docker", DOCKER_LOG=str(log), PATH=path)
    printed = {}
    scripts = sorted(path.name for path in (child / "scripts").iterdir() if path.is_file() and os.access(path, os.X_OK))
    assert {"setup", "test", "smoke", "run", "build"} <= set(scripts)
    calls = [[f"scripts/{name}", option] for name in scripts for option in ("--help", "--no-such-option")]
    calls.remove(["scripts/update", "--no-such-option"])  # it needs a package index
    for call in [*calls, ["scripts/test"], ["scripts/build"], ["scripts/smoke"]]:
        done = subprocess.run(
            call, cwd=child, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        printed[" ".join(call)] = done.stdout + done.stderr
    assert [call for call, text in printed.items() if CANARY in text] == []
    called = log.read_text(encoding="utf-8")
    assert "--env MY_SECRET " in called, "the way into Docker was not taken"
    assert CANARY not in called, "the secret stands on Docker's command line"
    assert leaks(child) == []


def test_env_reaches_neither_git_nor_an_image(child: Path) -> None:
    for name in (".gitignore", ".dockerignore"):
        patterns = (child / name).read_text(encoding="utf-8").split()
        assert {".env", "**/.env"} & set(patterns), f"{child.name}: {name}"


def test_the_service_logs_no_secret(render: Callable[[AnswerSet], Path], tmp_path: Path) -> None:
    """Texts, queries, headers, wrong bodies and settings, answered or refused; the log has a line for each request."""
    child, log = own_copy(render(AnswerSet("service", "plain")), tmp_path), tmp_path / "service.log"
    shutil.copy(standin_model.__file__, child / "src" / PACKAGE / "model.py")
    service = Process(child, log, LOG_LEVEL="debug", API_TOKEN=CANARY, DB_PASSWORD=CANARY)
    try:
        service.wait_for("/readyz", 200)
        assert service.predict(f"my password is {CANARY}")[0] == 200
        assert service.predict(CANARY, "poison")[0] == 500
        said = [service.get(f"/predict?token={CANARY}")[1], service.get("/livez")[1], service.get("/metrics")[1]]
        for body in (json.dumps({CANARY: 1}), json.dumps({"texts": [{"password": CANARY}]}), f'{{"texts": "{CANARY}'):
            headers = {"content-type": "application/json", "authorization": f"Bearer {CANARY}", "cookie": CANARY}
            request = urllib.request.Request(f"{service.url}/predict", body.encode(), headers)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=5)
            assert refused.value.code == 422
            said.append(refused.value.read().decode())
        assert [text for text in said if CANARY in text] == [], "an answer repeats the secret"
    finally:
        service.terminate()
        service.exit_code(10)
    lines = log.read_text(encoding="utf-8")
    assert lines.count('"path":"/predict"') == 6, lines
    assert CANARY not in lines


@pytest.mark.slow
def test_the_batch_job_writes_no_secret(render: Callable[[AnswerSet], Path], tmp_path: Path) -> None:
    """Its provenance keeps the command and the versions, not the environment and no password in an address."""
    child, output = render(AnswerSet("batch", "plain")), tmp_path / "result"
    (tmp_path / "in.jsonl").write_text('{"text": "rain"}\n', encoding="utf-8")
    command = [sys.executable, "-m", "gpu_repo_runtime.batch", "topic_finder", "run", "--input"]
    command += [str(tmp_path / "in.jsonl"), "--output", str(output)]
    # As a worker that Ray has started, which uses the address no more.
    command += ["--ray-address", f"ray://robot:{CANARY}@127.0.0.1:9"]
    environment = secret_environment(PYTHONPATH=f"{child / 'src'}{os.pathsep}{RUNTIME}", DEVICE="cpu", JOB_WORKER="0/1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "ray://robot:***@127.0.0.1:9" in (output / "_provenance.json").read_text(encoding="utf-8")
    assert CANARY not in done.stdout + done.stderr
    assert leaks(output) == []
