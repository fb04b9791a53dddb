"""PIP_INDEX_URL is the one setting for a package index with a password, for pip, uv and, as a secret, the build."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.answers import TYPES, AnswerSet
from tests.images.small_image import wheel

USER, SECRET = "robot@team", "s3cr-7f3a9c@:/%# $"
LOGIN, PASSWORD = f"{quote(USER, safe='')}:{quote(SECRET, safe='')}", quote(SECRET, safe="")
PROJECT = """[project]
name = "topic-finder"
version = "0.1.0"
dependencies = ["only-there"]

[dependency-groups]
dev = []
"""
DOCKER = """#!/usr/bin/env bash
# A Docker that keeps the secret of a build and how it was called.
printf '%s\\n' "$*" >>"$DOCKER_LOG"
for word; do case $word in id=pip.conf,src=*) cp "${word#*src=}" "$DOCKER_LOG.conf" ;; esac; done
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address, without its password, of an index that holds one package and asks who is there."""
    made = wheel(tmp_path_factory.mktemp("index") / "wheels", "only-there", "1.0", {"only_there.py": "here = True\n"})
    login = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
    page = f'<!doctype html><a href="/files/{made.name}">{made.name}</a>'.encode()

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/simple/only-there/": page, f"/files/{made.name}": made.read_bytes()}.get(self.path)
            status = 401 if self.headers.get("Authorization") != login else 404 if body is None else 200
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if body is page else "application/zip")
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.end_headers()
            if status == 200 and body and self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}/simple/"
    server.shutdown()


@pytest.fixture
def child(render: Callable[[AnswerSet], Path], tmp_path: Path) -> Path:
    """Return a library that depends on a package of the index alone, with this environment's uv."""
    folder = tmp_path / "child"
    shutil.copytree(render(AnswerSet("library", "plain")), folder)
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (folder / "constraints.txt").write_text("", encoding="utf-8")
    for lock in folder.glob("requirements*.lock"):
        lock.unlink()
    (folder / "scripts" / "lock").write_text(
        (folder / "scripts" / "lock").read_text(encoding="utf-8").replace(" --gpu", ""), encoding="utf-8"
    )
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("uv", "python"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)
    return folder


def run(child: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    env = kept | {"UV_CACHE_DIR": str(child.parent / "cache"), "UV_NO_CONFIG": "1"} | environment
    return subprocess.run(command, cwd=child, env=env, capture_output=True, text=True, check=False)


def test_scripts_lock_reads_the_index_from_env(child: Path, index: str) -> None:
    (child / ".env").write_text(f"PIP_INDEX_URL=http://{LOGIN}@{index}\n", encoding="utf-8")
    done = run(child, "scripts/lock")
    assert done.returncode == 0, done.stderr
    lock = (child / "requirements.lock").read_text(encoding="utf-8")
    assert "only-there==1.0 " in lock
    assert "--hash=sha256:" in lock
    told = lock + done.stdout + done.stderr
    assert [kept for kept in (PASSWORD, SECRET, index) if kept in told] == []
    into = str(child.parent / "installed")
    installing = 'source scripts/lib.sh; .venv/bin/uv pip install --require-hashes --target "$0" -r requirements.lock'
    done = run(child, "bash", "-c", installing, into)
    assert Path(into, "only_there.py").is_file(), done.stderr


def test_a_wrong_password_is_told_and_not_printed(child: Path, index: str) -> None:
    done = run(child, "scripts/lock", PIP_INDEX_URL=f"http://{LOGIN}-old@{index}")
    assert done.returncode == 1
    assert "401" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("project_type", TYPES)
def test_a_build_gets_it_as_a_secret(
    render: Callable[[AnswerSet], Path], tmp_path: Path, index: str, project_type: str
) -> None:
    child, log = tmp_path / "child", tmp_path / "docker.log"
    shutil.copytree(render(AnswerSet(project_type, "plain")), child)
    (tmp_path / "docker").write_text(DOCKER, encoding="utf-8")
    (tmp_path / "docker").chmod(0o755)
    environment = {"DOCKER_LOG": str(log), "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = run(child, "scripts/build", PIP_INDEX_URL=f"http://{LOGIN}@{index}", **environment)
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in log.read_text(encoding="utf-8") + done.stderr
    conf = Path(f"{log}.conf").read_text(encoding="utf-8")
    assert f"index-url = http://{LOGIN}@{index}" in conf, conf
    assert list((tmp_path / "tmp").iterdir()) == [], "the secret lies in the temporary folder"
    steps = (child / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    blind = [step for step in steps if "base-install /tmp" in step and "id=pip.conf,target=/etc/pip.conf" not in step]
    assert blind == [], "a step that installs packages does not get the secret"
