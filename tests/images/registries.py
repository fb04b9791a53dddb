"""A container registry on the loopback: CNCF Distribution, which Debian has as docker-registry."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a registry whose content lies in a folder; yield host:port."""
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder / "content", port=port))
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log) as process,
    ):
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/").close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"localhost:{port}"
        finally:
            process.terminate()
