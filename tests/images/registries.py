"""A registry on this machine (Debian's docker-registry), for tests that push."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a registry on a free port; yield host:port."""
    program = shutil.which("docker-registry")
    if not program or not shutil.which("skopeo"):
        pytest.fail("needs a registry and skopeo: apt-get install docker-registry skopeo", pytrace=False)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"version": "0.1", "http": {"addr": f"127.0.0.1:{port}"}, "log": {"level": "error"}}
    settings["storage"] = {"filesystem": {"rootdirectory": str(folder / "data")}}
    (folder / "config.yml").write_text(json.dumps(settings))
    process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"localhost:{port}"
    process.terminate()
    process.wait()
