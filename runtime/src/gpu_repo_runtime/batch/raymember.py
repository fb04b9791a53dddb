"""A worker of the job on a node of a Ray cluster. Sent there as it stands, so it imports the standard library alone."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, Any

# What tells a process that it is one of several, which another scheduler may have set on the node.
_OTHERS = ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_KEPT_LINES = 20


class Member:
    """Runs processes of the job with the node's own packages and the GPU that Ray has given to this actor.

    environment: added to the node's. paths: those of the driver's PYTHONPATH, which come first where the node has them.
    """

    def __init__(self, environment: Mapping[str, str], paths: Sequence[str]) -> None:
        own = {name: value for name, value in os.environ.items() if name not in _OTHERS}
        there = [path for path in paths if os.path.isdir(path)]
        folders = dict.fromkeys([*there, *own.get("PYTHONPATH", "").split(os.pathsep)])
        python = {"PYTHONPATH": os.pathsep.join(path for path in folders if path)}
        self._environment = own | dict(environment) | python | {"JOB_PARENT": str(os.getpid())}
        self._process: subprocess.Popen[str] | None = None
        self._signal = 0

    def place(self) -> tuple[str, str]:
        """Return the name of the node and Ray's number of it, when the actor has its place."""
        from ray import get_runtime_context

        return platform.node(), str(get_runtime_context().get_node_id())

    def look(self, package: str, output: str, token: str, first: bool) -> tuple[dict[str, Any], str]:
        """Return what this node would compute with, and why it cannot work, "" when it can."""
        command = [sys.executable, "-m", "gpu_repo_runtime.batch.member", package, output, token]
        if first:
            command.append("first")
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return {}, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        found: dict[str, Any] = json.loads(done.stdout)
        return found, ""

    def run(self, package: str, arguments: Sequence[str]) -> tuple[int, str]:
        """Do the work; return the exit code and the last line that the job has said."""
        if self._signal:
            return 128 + self._signal, ""
        command = [sys.executable, "-m", "gpu_repo_runtime.batch", package, *arguments]
        # In this thread: on Linux the process is killed when the thread that has started it is gone.
        self._process = subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, text=True)
        last: deque[str] = deque(maxlen=_KEPT_LINES)
        assert self._process.stderr is not None
        # Not read to its end here: what the model has left behind may hold on to it.
        reader = threading.Thread(target=_pass_on, args=(self._process.stderr, last), daemon=True)
        reader.start()
        if self._signal:
            self._process.send_signal(self._signal)
        code = self._process.wait()
        reader.join(2)
        said = [line for line in last if line.startswith("job: ")] or list(last)
        return code, said[-1].removeprefix("job: ") if said else ""

    def stop(self, number: int) -> None:
        """Pass a signal on to the work, or to what will be the work."""
        self._signal = number
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.Signals(number))


def _pass_on(stream: IO[str], last: deque[str]) -> None:
    for line in stream:
        sys.stderr.write(line)
        sys.stderr.flush()
        if line.strip():
            last.append(line.strip())
