"""`python -m MODULE` as a process that need not import the libraries again: a fork of one that has them.

It is a process like any other, with an id, an exit code, an environment, streams and signals of its own. What it lacks:
in /proc its command line and environment are those of the server, and libraries that read the environment when they are
imported have read that of the server. A test of these things starts Python itself.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)  # where they are ignored
WIDTH = 12  # of each number that the server tells
# What the fork needs not import again. Not the runtime itself, which tests are about.
SERVICE = ("fastapi", "fastapi.testclient", "uvicorn", "pydantic_settings", "prometheus_client", "opentelemetry._logs")
JOB = ("pyarrow.compute", "pyarrow.csv", "pyarrow.dataset", "pyarrow.json", "pyarrow.parquet", "pydantic")


class Forked(subprocess.Popen[str]):
    """`python -m MODULE ARGUMENTS`, a fork of a process with these libraries; otherwise as subprocess.Popen."""

    def __init__(self, module: str, *arguments: str, libraries: tuple[str, ...], **options: Any) -> None:
        self.libraries, self.ended = libraries, -1
        super().__init__([module, *arguments], **{"text": True, **options})

    def _execute_child(self, args: Any, executable: Any, *options: Any) -> None:
        _, _, _, folder, environment, _, _, _, *pipes = options[:14]
        theirs = [pipe if pipe != -1 else number for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.ended, said = os.pipe()
        order = {
            "command": args,
            "cwd": str(folder or Path.cwd()),
            "environment": dict(environment or os.environ),
            "ignored": [number for number in INHERITED if signal.getsignal(number) is signal.SIG_IGN],
        }
        try:
            socket.send_fds(server(self.libraries), [json.dumps(order).encode()], [*theirs, said])
        finally:
            os.close(said)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(os.read(self.ended, WIDTH))
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self.ended], [], [], 0)[0]:
            return 0, 0
        status = os.read(self.ended, WIDTH)
        os.close(self.ended)
        return self.pid, int(status or 1 << 8)

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None:
            ended, status = self._try_wait(os.WNOHANG)
            if ended:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def run(module: str, *arguments: str, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it, and return its exit code and what it printed."""
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked(module, *arguments, **piped | options) as process:
        try:
            said, complained = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess([module, *arguments], process.returncode, said, complained)


@cache
def server(libraries: tuple[str, ...]) -> socket.socket:
    """Return this test worker's way to the process that has imported these libraries."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), *libraries]
    process = subprocess.Popen(command, cwd=ROOT, env=own, pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
