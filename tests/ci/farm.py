"""What pipelines meet in these tests: a registry, a package index, and the agents of a farm.

Real: every `sh`, the scripts of children, lint, unit tests and jobs, what skopeo pushes and tags, the package index
(pypiserver), wheel and upload. Stand-ins: the registry (registry.py, here with accounts and their rights), and on the
PATH of the agent that would have the real thing docker (standins/engine.py), gpu-smoke on a GPU
(standins/smoke.py; without a GPU it is the real one), kubectl's cluster (standins/cluster.py) and shellcheck (2 seconds
a child; tests/templates checks the scripts of every child). In the parent's pipelines `make lint`, `make scan` and
`make test` stand in too (standins/make.sh): they would run these tests again.
"""

from __future__ import annotations

import base64
import re
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pypiserver

from tests.ci import registry

STANDINS = Path(__file__).parent / "standins"
STAGING_LOGIN = ("staging-ci", "staging-password")
RELEASE_LOGIN = ("release-ci", "release-password")
INDEX_LOGIN = ("ci", "index-password")
RIGHTS = {  # the pipelines' credentials and where they may push; the agents' own login may only read
    STAGING_LOGIN: "staging",
    RELEASE_LOGIN: "release",
    ("agent", "agent-password"): "",
}
# pypiserver adds a finder of modules without find_spec, of which Python 3.11 warns in every test.
sys.meta_path[:] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
SECRETS = (STAGING_LOGIN[1], RELEASE_LOGIN[1], INDEX_LOGIN[1])


class Registry(registry.Registry):
    """A registry that does nothing without a login, lets each account push to its own place, and can be busy."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = "nothing"  # the manifests that match are answered with 503

    def refusal(self, method: str, path: str, login: str) -> tuple[int, str] | None:
        """Reject who is not known, who may not push there, and everybody while it is busy."""
        user, _, password = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        place = RIGHTS.get((user, password))
        if place is None:
            return 401, "UNAUTHORIZED"
        if method not in ("GET", "HEAD"):
            if place != ("staging" if re.match(r"/v2/[^?]*-staging/", path) else "release"):
                return 403, "DENIED"
            if re.search(f"{self.busy}/manifests/", path):
                return 503, "UNAVAILABLE"
        return None


class Index:
    """A package index that takes uploads with a login, unless it is busy."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.busy = folder, False
        self._app = pypiserver.app(
            roots=[str(folder)], authenticate=["update"], auther=lambda *given: given == INDEX_LOGIN
        )
        server = make_server("127.0.0.1", 0, self._answer, handler_class=_Quiet)
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()

    def _answer(self, environment: dict[str, Any], start: Callable[..., Any]) -> Any:
        if self.busy:
            start("503 Service Unavailable", [])
            return []
        return self._app(environment, start)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclass
class Agents:
    """The agents of a farm, a folder for each, first on its PATH; labels are those of the pipelines' parameters."""

    folder: Path
    labels: dict[str, Path] = field(default_factory=dict)

    def add(self, label: str, *, gpu: bool = False, cluster: bool = False, make: str | None = None) -> Path:
        """Add an agent with Docker, with a GPU, or with kubectl alone. make: variables of its `make` (make.sh)."""
        home = self.folder / label
        (home / "inside").mkdir(parents=True)
        (home / "images").mkdir()
        (home / "uv").symlink_to(Path(sys.executable).parent / "uv")
        if gpu:
            (home / "nvidiactl").touch()
        python, engine = f"exec '{sys.executable}'", "cluster.py" if cluster else "engine.py"
        self._program(home / ("kubectl" if cluster else "docker"), home, f"{python} -S '{STANDINS / engine}'")
        self._program(home / "inside" / "gpu-smoke", home, f"{python} '{STANDINS / 'smoke.py'}'")
        self._program(home / "inside" / "shellcheck", home, "exec true")
        if make is not None:
            real = f"STANDIN_MAKE='{shutil.which('make')}' STANDIN_PYTHON='{sys.executable}'"
            self._program(home / "make", home, f"{real} {make} exec '{STANDINS / 'make.sh'}'")
        self.labels[label] = home
        return home

    @staticmethod
    def _program(file: Path, home: Path, command: str) -> None:
        file.write_text(f"#!/bin/sh\nexport STANDIN_ENGINE='{home}'\n{command} \"$@\"\n")
        file.chmod(0o755)
