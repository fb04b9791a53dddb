"""The address of a template: it runs nothing, and its password is neither seen nor stored; a host may be slow."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fleetkit.children import shown as fleet_shows
from gpu_repo_runtime.update.git_calls import login_of, without_password
from gpu_repo_runtime.update.template_versions import UpdateError, address_of

from tests.sampling import sampled
from tests.updates.copiers import ROOT, run_program
from tests.updates.program import Program
from tests.updates.tiny import Child, Template, make_child

TOKEN = "s3cr3t-t0ken"


class Guarded(SimpleHTTPRequestHandler):
    """Serves files to those who know the user and the token."""

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"bot:{TOKEN}".encode()).decode()
        if self.headers.get("Authorization") == expected:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """Return where a host serves the folder `remotes`."""
    (tmp_path / "remotes").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Guarded, directory=tmp_path / "remotes"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def serve(template: Template, folder: Path) -> None:
    """Put the template on the host."""
    bare = folder / "remotes" / "family.git"
    subprocess.run(["rm", "-rf", str(bare)], check=True)
    template.git("clone", "--quiet", "--bare", str(template.path), str(bare))
    template.git("--git-dir", str(bare), "update-server-info")


def follow(child: Child, source: str) -> None:
    """Let a child follow another address."""
    old = next(line for line in child.read(".copier-answers.yml").splitlines() if line.startswith("_src_path"))
    child.edit(
        {".copier-answers.yml": child.read(".copier-answers.yml").replace(old, f"_src_path: {json.dumps(source)}")}
    )


def watched_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git on the path that writes down every command line of it and of what it starts, as ps would show them."""
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout.strip()
    core = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
    (folder / "bin").mkdir()
    for name, program in (("git", real), ("git-remote-http", f"{core}/git-remote-http")):
        script = f'#!/bin/sh\necho "$0 $*" >> {folder}/seen\nexec {program} "$@"\n'
        (folder / "bin" / name).write_text(script)
        (folder / "bin" / name).chmod(0o755)
    for entry in Path(core).iterdir():
        if not (folder / "bin" / entry.name).exists():
            (folder / "bin" / entry.name).symlink_to(entry)
    monkeypatch.setenv("GIT_EXEC_PATH", str(folder / "bin"))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder / "seen"


def stored(folder: Path) -> list[str]:
    """Return the files under a folder that hold the token."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def test_a_token_is_used_and_neither_seen_nor_stored(
    template: Template, program: Program, tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    follow(child, f"http://bot:{TOKEN}@{host}/family.git")
    template.release("v2.0.0", {"a.txt": "b\n"})
    serve(template, tmp_path)
    seen = watched_git(tmp_path, monkeypatch)
    assert program(child, "--dry-run", "--diff") == 0, program.err
    assert "-a\n+b\n" in program.out
    assert TOKEN not in program.out + program.err
    assert program(child, "--json") == 0, program.err
    assert child.read("a.txt") == "b\n"
    assert f"git-remote-http http://{host}/family.git" in seen.read_text().replace("bin/", ""), "nothing was watched"
    assert TOKEN not in seen.read_text(), "a command line holds the token"
    assert stored(tmp_path / "copier-home") == [], "the cache holds the token"
    assert stored(child.path / ".git" / "worktrees") == []


def test_a_wrong_token_is_told_without_it(template: Template, program: Program, tmp_path: Path, host: str) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    serve(template, tmp_path)
    follow(child, f"http://bot:wrong-{TOKEN}@{host}/family.git")
    assert program(child) == 1
    assert f"the template http://{host}/family.git cannot be reached" in program.err
    assert TOKEN not in program.err


def test_a_new_child_stores_no_token(template: Template, tmp_path: Path, host: str) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    serve(template, tmp_path)
    source = f"http://bot:{TOKEN}@{host}/family.git"
    command = [str(tmp_path / "child"), "--template", source, "--answer", "project_name=x"]
    done = run_program("new", command, ROOT, template.copier.environment())
    assert done.returncode == 0, done.stderr
    assert f"_src_path: http://{host}/family.git\n" in (tmp_path / "child" / ".copier-answers.yml").read_text()
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize("version", [(), ("--version", "HEAD")])
def test_a_new_child_runs_nothing(template: Template, tmp_path: Path, version: tuple[str, ...]) -> None:
    source = f"--template=--upload-pack=touch {tmp_path / 'ran'};"
    template.copier.home.mkdir(exist_ok=True)
    command = [str(tmp_path / "child"), *version, source, "--answer", "project_name=x"]
    done = run_program("new", command, ROOT, template.copier.environment())
    assert done.returncode == 1
    assert "is not the address of a template" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("source", ["--upload-pack=touch {0};", "-oProxyCommand=touch {0}", "ext::sh -c 'touch {0}'"])
def test_an_address_runs_nothing(template: Template, program: Program, tmp_path: Path, source: str) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    follow(child, source.format(tmp_path / "ran"))
    assert program(child) == 1
    assert not (tmp_path / "ran").exists()
    assert program.err.count("\n") == 1


def test_a_host_that_never_answers_is_given_up(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        follow(child, f"http://127.0.0.1:{silent.getsockname()[1]}/family.git")
        monkeypatch.setenv("UPDATE_TIME_LIMIT", "0.5")
        assert program(child) == 1
    assert "did not answer in 0.5 s" in program.err


@pytest.mark.parametrize("limit", sampled(["soon", "-1", "0", "inf", "1e9"], ["soon"]))
def test_a_time_limit_that_is_none_is_named(
    template: Template, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    template.release("v1.0.0", {"a.txt": "a\n"})
    child = make_child(template, tmp_path / "child")
    monkeypatch.setenv("UPDATE_TIME_LIMIT", limit)
    assert program(child) == 1
    assert program.err == f"update: UPDATE_TIME_LIMIT is {limit!r}: it takes seconds, for example 300\n"


@pytest.mark.parametrize(
    ("address", "shown", "login"),
    [
        ("https://token@host/x.git", "https://host/x.git", ("token", "")),
        ("https://user:p%40ss@host/x.git", "https://host/x.git", ("user", "p@ss")),
        ("https://user:p@ss@host/x.git", "https://host/x.git", ("user", "p@ss")),
        ("ssh://git@host/x.git", "ssh://git@host/x.git", None),
        ("git@host:acme/x.git", "git@host:acme/x.git", None),
        ("https://host/x.git", "https://host/x.git", None),
    ],
)
def test_a_password_is_taken_out_of_an_address(address: str, shown: str, login: tuple[str, str] | None) -> None:
    assert without_password(address) == shown
    assert without_password(f"fatal: unable to access '{address}/': 403") == f"fatal: unable to access '{shown}/': 403"
    assert login_of(address) == login


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://host/x.git?private_token=S1", "https://host/x.git?private_token="),
        ("https://u:S1@host/x?a=1&access_token=S1&b=2&api-key=S1", "https://host/x?a=1&access_token=&b=2&api-key="),
        ("https://host/badge?style=flat&branch=main", "https://host/badge?style=flat&branch=main"),
    ],
)
def test_a_token_among_the_parameters_is_taken_out(address: str, shown: str) -> None:
    assert without_password(f"fatal: '{address}' and {address}") == f"fatal: '{shown}' and {shown}"
    assert "S1" not in fleet_shows(address)


def test_short_addresses_are_those_of_copier() -> None:
    assert address_of("gh:acme/family") == "https://github.com/acme/family.git"
    assert address_of("gl:acme/family.git") == "https://gitlab.com/acme/family.git"
    assert address_of("git+https://host/x.git") == "https://host/x.git"
    with pytest.raises(UpdateError):
        address_of("-x")
