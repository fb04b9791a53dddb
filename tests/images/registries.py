"""A registry on this machine (Debian's docker-registry), for tests that push."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.jenkins.pipelines.farm import Server, free_port


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a registry on a free port; yield host:port."""
    program = shutil.which("docker-registry")
    if not program or not shutil.which("skopeo"):
        pytest.fail("needs a registry and skopeo: apt-get install docker-registry skopeo", pytrace=False)
    port = free_port()
    settings = {"version": "0.1", "http": {"addr": f"127.0.0.1:{port}"}, "log": {"level": "error"}}
    settings["storage"] = {"filesystem": {"rootdirectory": str(folder / "data")}}
    (folder / "config.yml").write_text(json.dumps(settings))
    server = Server([program, "serve", str(folder / "config.yml")], port)
    try:
        yield f"localhost:{port}"
    finally:
        server.stop()
