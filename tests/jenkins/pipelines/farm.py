"""What pipelines meet in these tests: a registry and a package index that are real, and the agents of a farm.

Real: every `sh`, the children's scripts, lint, unit tests, service and job; the registry (Debian's docker-registry;
gatekeeper.py in front of it asks for a login and gives each account its rights) and what skopeo pushes, tags and says
about it; the package index (pypiserver), wheel and upload. Stand-ins, on the PATH of the agent that would have the real
thing: docker (standins/engine.py), gpu-smoke on a
GPU (standins/smoke.py; without a GPU it is the real one), kubectl's cluster (standins/cluster.py), and shellcheck where
a test does not ask for it. A child's lib.sh is changed in one place: it looks for the GPU beside its agent's docker and
not in /dev. In the parent's pipeline `make lint` and `make test` stand in too (standins/make.sh): they would run these
tests again.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.jenkins.pipelines.gatekeeper import Fault, Gatekeeper
from tests.jenkins.pipelines.standins.ports import free_port

STANDINS = Path(__file__).parent / "standins"
STAGING_LOGIN = ("staging-ci", "staging-password")
RELEASE_LOGIN = ("release-ci", "release-password")
USERS = {  # the pipelines' credentials, and the agents' own login, which may only read
    STAGING_LOGIN[0]: (STAGING_LOGIN[1], "staging"),
    RELEASE_LOGIN[0]: (RELEASE_LOGIN[1], "release"),
    "agent": ("agent-password", "reader"),
}
INDEX_LOGIN = ("ci", "index-password")
INDEX = """
import sys, pypiserver, wsgiref.simple_server
login = (sys.argv[3], sys.argv[4])
app = pypiserver.app(roots=[sys.argv[1]], authenticate=["update"], auther=lambda *given: given == login)
wsgiref.simple_server.make_server("127.0.0.1", int(sys.argv[2]), app).serve_forever()
"""


def needs_registry(item: pytest.Item) -> None:
    """Mark a test whose fixtures start the registry."""
    if "servers" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("docker-registry", "skopeo"))


class Server:
    """A process that listens at a port of this machine, can be stopped and started again, and keeps its files."""

    def __init__(self, command: list[str], port: int) -> None:
        self.command, self.port = command, port
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens. Raises RuntimeError after 30 seconds."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self.command[0]} does not listen at port {self.port}")

    def stop(self) -> None:
        """Stop it."""
        if self.process:
            self.process.terminate()
            self.process.wait()


class Registry(Server):
    """A container registry that takes nothing without a login, and each account's pushes only where it may push."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        behind, front = free_port(), free_port()
        settings = {"version": "0.1", "log": {"level": "error"}}
        settings["http"] = {"addr": f"127.0.0.1:{behind}", "relativeurls": True}
        settings["storage"] = {"filesystem": {"rootdirectory": str(folder / "data")}}
        (folder / "config.yml").write_text(json.dumps(settings))
        super().__init__(["docker-registry", "serve", str(folder / "config.yml")], behind)
        self.keeper, self.host = Gatekeeper(front, behind, USERS), f"localhost:{front}"

    def fails(self, method: str, path: str, status: int, times: int = 1) -> None:
        """Let the next requests that match fail with this status."""
        self.keeper.faults.append(Fault(method, path, status, times))

    def _ask(self, path: str, method: str = "GET", data: bytes | None = None, kind: str = "") -> tuple[bytes, str]:
        accept = ", ".join(f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index"))
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v2/{path}", data, {"Accept": accept}, method=method
        )
        if kind:
            request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request) as answer:
            return answer.read(), answer.headers.get("Docker-Content-Digest", "")

    def tags(self, name: str) -> dict[str, str]:
        """Return the tags of a repository with their digests; none when there is no such repository."""
        try:
            listed = json.loads(self._ask(f"{name}/tags/list")[0])["tags"] or []
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise
        return {tag: self._ask(f"{name}/manifests/{tag}")[1] for tag in listed}

    def copy(self, source: str, digest: str, target: str, tag: str) -> None:
        """Give the manifest `digest` of one repository a tag in another, as somebody with the right to could."""
        command = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"]
        home = f"docker://127.0.0.1:{self.port}"
        subprocess.run([*command, f"{home}/{source}@{digest}", f"{home}/{target}:{tag}"], check=True)


class Index(Server):
    """A package index that takes uploads with a login."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, port = folder, free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__([sys.executable, "-c", INDEX, str(folder), str(port), *INDEX_LOGIN], port)

    def files(self) -> set[str]:
        """Return the names of the files that it offers."""
        return {path.name for path in self.folder.iterdir()}


@dataclass
class Agents:
    """The agents of a farm, a folder for each, first on its PATH; labels are those of the pipelines' parameters.

    python: where the packages are that a child's image would hold. shellcheck: whether the real one runs (2 seconds a
    child; the scripts of every child are checked in tests/templates).
    """

    folder: Path
    python: Path = Path(sys.executable)
    shellcheck: bool = False
    labels: dict[str, Path] = field(default_factory=dict)

    def add(self, label: str, *, gpu: bool = False, cluster: bool = False) -> Path:
        """Add an agent with Docker, with a GPU, or with kubectl alone."""
        home = self.folder / label
        (home / "inside").mkdir(parents=True)
        (home / "images").mkdir()
        (home / "uv").symlink_to(Path(sys.executable).parent / "uv")
        if gpu:
            (home / "nvidiactl").touch()
        self._program(
            home, "kubectl" if cluster else "docker", "-S", str(STANDINS / ("cluster.py" if cluster else "engine.py"))
        )
        self._program(home, "inside/gpu-smoke", str(STANDINS / "smoke.py"))
        if not self.shellcheck:
            self._program(home, "inside/shellcheck", "-Sc", "pass")
        self.labels[label] = home
        return home

    def _program(self, home: Path, name: str, *command: str) -> None:
        words = " ".join(f"'{word}'" for word in (str(self.python), *command))
        (home / name).write_text(f"#!/bin/sh\nexport STANDIN_ENGINE='{home}'\nexec {words} \"$@\"\n")
        (home / name).chmod(0o755)


def look_beside_docker(child: Path) -> None:
    """Let a child look for the GPU beside its agent's docker."""
    library = child / "scripts" / "lib.sh"
    text = library.read_text()
    assert text.count("-e /dev/nvidiactl") == 1, f"{library}: how does it find a GPU now?"
    library.write_text(text.replace("-e /dev/nvidiactl", '-e "$(dirname "$(command -v docker)")/nvidiactl"'))


def environment(index: Index, **more: str) -> Mapping[str, str]:
    """Return what a Jenkins folder would set for its pipelines."""
    return {"PACKAGE_INDEX_URL": f"{index.url}/", "REGISTRY_PAUSES": "0 0", **more}
