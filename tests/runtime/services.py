"""The runtime's service as a process of its own, for tests with a fixture `child`: a folder with src/topic_finder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.shared import RUNTIME

PACKAGE = "topic_finder"


class Process:
    """The runtime's service as a process of its own around a project's model; its output goes to a file."""

    def __init__(self, child: Path, log: Path, **settings: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{self.port}", log
        own = {"PORT": str(self.port), "LISTEN_HOST": "127.0.0.1", "DEVICE": "cpu", "LOG_FORMAT": "json"}
        environment = {**os.environ, "PYTHONPATH": f"{child / 'src'}{os.pathsep}{RUNTIME}", **own, **settings}
        with log.open("w") as output:
            self.popen = processes.Process(
                "gpu_repo_runtime.serving",
                PACKAGE,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str, timeout: float = 5) -> tuple[int, str]:
        """Return status and body of a GET; status 0 when nobody answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def predict(self, *texts: str, timeout: float = 30) -> tuple[int, dict]:
        """Return status and JSON of a prediction; status 0 when nobody answers."""
        request = urllib.request.Request(
            f"{self.url}/predict", json.dumps({"texts": texts}).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def wait_for(self, path: str, status: int, seconds: float = 20) -> str:
        """Return the body when `path` answers with `status`; fail after `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found, body = self.get(path)
            if found == status:
                return body
            time.sleep(0.02)
        pytest.fail(f"{path} did not answer {status} within {seconds} s, last {found}; log:\n{self.said()}")

    def said(self) -> str:
        """Return the log; reading a pipe would wait for the end of the process."""
        return self.log.read_text() if self.log.is_file() else "in a pipe"

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.popen.send_signal(signal.SIGTERM)

    def exit_code(self, seconds: float) -> int:
        """Return the exit code; fail when the process still runs after `seconds`."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the process still runs after {seconds} s; log:\n{self.said()}")

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.fixture
def start(child: Path, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Return a function that starts a service with settings, by default ready; all are ended after the test."""
    running: list[Process] = []

    def run(*, ready: bool = True, **settings: str) -> Process:
        process = Process(child, tmp_path / f"service-{len(running)}.log", **settings)
        running.append(process)
        if ready:
            process.wait_for("/readyz", 200)
        return process

    yield run
    for process in running:
        process.popen.kill()
        process.popen.wait()
