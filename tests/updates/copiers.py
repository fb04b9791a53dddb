"""Copier and the programs of hooks/ and tools/, with the settings of one test and nothing of whoever runs it."""

import atexit
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.shared import ROOT

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


@dataclass(frozen=True)
class Copier:
    """Copier; `home` holds the cache and settings of one test."""

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
        return run_program("copier", [str(a) for a in arguments], cwd, self.environment())


def run_program(
    program: str, arguments: list[str], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run "copier", or a program of hooks/ or tools/, as a process; the exit code is the caller's to judge."""
    request = {"program": program, "arguments": arguments, "cwd": str(cwd), "environment": environment}
    server = program_server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    done = json.loads(server.stdout.readline())
    return subprocess.CompletedProcess([program, *arguments], done["code"], done["stdout"], done["stderr"])


@cache
def program_server() -> subprocess.Popen[str]:
    """Return the process of this test worker that runs the programs."""
    quiet = ("-W", "ignore")  # Copier warns that a local template has uncommitted changes
    command = [sys.executable, *quiet, "-m", "tests.updates.program_server"]
    own = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("hooks", "tools", "runtime/src"))}
    server = subprocess.Popen(command, cwd=ROOT, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def copier_at(home: Path) -> Copier:
    """Return Copier with its private folder `home`."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "settings.yml").write_text("{}\n")
    (home / "gitconfig").write_text(GIT_SETTINGS)
    return Copier(home)
