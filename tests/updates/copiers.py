"""The Copier versions that the family supports, as programs: the newest and the oldest."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
OLDEST_LOCK = Path(__file__).with_name("oldest-copier.lock")
GIT_SETTINGS = """\
[init]
defaultBranch = main
[gc]
auto = 0
[core]
fsync = none
[protocol "file"]
allow = always
"""
QUIET = ("-W", "ignore")  # Copier warns that a local template has uncommitted changes


@dataclass(frozen=True)
class Copier:
    """One installed Copier; `home` holds the cache and settings of one test."""

    label: str
    python: Path
    home: Path

    def environment(self) -> dict[str, str]:
        """Return an environment that nothing of the person who runs the tests reaches."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COPIER_", "GIT_"))}
        author = {"NAME": "Owner", "EMAIL": "owner@example.com"}
        return kept | {
            "COPIER_CACHE_DIR": str(self.home / "cache"),
            "COPIER_SETTINGS_PATH": str(self.home / "settings.yml"),
            "GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in author.items()},
        }

    def run(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run `copier` with `arguments` in `cwd`; the exit code is the caller's to judge."""
        request = {"arguments": [str(a) for a in arguments], "cwd": str(cwd), "environment": self.environment()}
        server = server_of(self.python)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        done = json.loads(server.stdout.readline())
        return subprocess.CompletedProcess(request["arguments"], done["code"], done["stdout"], done["stderr"])


@cache
def server_of(python: Path) -> subprocess.Popen[str]:
    """Return the process of this test worker that runs Copier's command line with `python`."""
    command = [str(python), *QUIET, str(Path(__file__).with_name("copier_server.py"))]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def minimum_version() -> str:
    """Return the oldest version that copier.yml accepts."""
    settings = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
    return str(settings["_min_copier_version"])


def newest_version() -> str:
    """Return the version that the development tools pin."""
    pins = (ROOT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
    return next(pin.removeprefix("copier==") for pin in pins if pin.startswith("copier=="))


@cache
def oldest_python() -> Path:
    """Return the Python that has the oldest Copier, installed once by hash under build/ for all workers.

    Raises RuntimeError, which says why, when it cannot be installed.
    """
    key = hashlib.sha256(OLDEST_LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = ROOT / "build" / "oldest-copier" / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv = Path(sys.executable).with_name("uv")
    with folder.with_suffix(".wait").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            for step in (
                ["venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
                ["pip", "sync", "--quiet", "--python", str(folder), "--require-hashes", str(OLDEST_LOCK)],
            ):
                done = subprocess.run([str(uv), *step], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(
                        f"Copier {minimum_version()}, the oldest supported, cannot be installed from "
                        f"{OLDEST_LOCK.name}: {done.stderr.strip()}"
                    )
            (folder / "ready").touch()
    return folder / "bin" / "python"


def installed(label: str, home: Path) -> Copier:
    """Return the "newest" or the "oldest" Copier with its private folder `home`."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "settings.yml").write_text("{}\n")
    (home / "gitconfig").write_text(GIT_SETTINGS)
    own = label == "newest" or minimum_version() == newest_version()
    python = Path(sys.executable) if own else oldest_python()
    return Copier(label, python, home)
