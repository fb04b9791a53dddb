"""A Ray cluster on this machine, and the job that is started on it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.batch.conftest import PACKAGE, Job, Output
from tests.shared import once, shared_folder

RAY = "ray[client]==2.60.0"
# The limit of each wait. On a machine that others load, Ray's own 30 s are too few, and a look at the nodes, which
# starts Ray, takes minutes.
LIMIT_SECONDS = 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Cluster:
    """A Ray cluster on this machine, of two nodes with a CPU each."""

    python: Path
    child: Path
    folder: Path
    port: int = field(default_factory=free_port)
    client: int = field(default_factory=free_port)
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = os.environ | own | {"SLOW": "0.05", "DEVICE": "auto"}
        self.environment["RAY_raylet_start_wait_time_s"] = str(LIMIT_SECONDS)
        self.environment.pop("PYTHONPATH", None)

    def start(self, *options: str, around: tuple[str, ...] = ()) -> None:
        common = ["--num-cpus=1", "--object-store-memory=100000000", "--block", "--disable-usage-stats"]
        command = [*around, self.python.parent / "ray", "start", *options, *common]
        log = (self.folder / f"node-{len(self.nodes)}.log").open("wb")
        self.nodes.append(
            subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        )
        log.close()

    def start_head(self) -> None:
        client = f"--ray-client-server-port={self.client}"
        temporary = f"--temp-dir={self.folder}"
        self.start("--head", f"--port={self.port}", client, temporary, "--include-dashboard=false")

    def join(self, around: tuple[str, ...] = ()) -> None:
        """Start another node. around: a command that starts it."""
        self.start(f"--address=127.0.0.1:{self.port}", around=around)

    def count(self) -> int:
        code = f"import ray; ray.init('127.0.0.1:{self.port}', logging_level='ERROR'); " + (
            "print('nodes', sum(n['Alive'] for n in ray.nodes()))"
        )
        try:
            done = subprocess.run(
                [self.python, "-c", code], env=self.environment, capture_output=True, text=True, timeout=LIMIT_SECONDS
            )
        except subprocess.TimeoutExpired:
            return 0
        # Ray also prints warnings that name nodes.
        found = re.search(r"^nodes (\d+)$", done.stdout, re.MULTILINE)
        return int(found[1]) if found else 0

    def has(self, count: int) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.count() != count:
            logs = [path.read_text()[-2000:] for path in self.folder.glob("node-*.log")]
            assert time.monotonic() < deadline, logs
            assert all(node.poll() is None for node in self.nodes), logs
            time.sleep(1)

    def run_inside(self, *arguments: object) -> subprocess.Popen[str]:
        """Start the job on the cluster as from one of its nodes, without the server for clients."""
        return self.run(*arguments, RAY_ADDRESS=f"127.0.0.1:{self.port}")

    def run(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start the job on the cluster."""
        command = [self.python, "-m", f"{PACKAGE}.job", "run", *map(str, arguments)]
        own = {"PYTHONPATH": Job(self.child).path, "JOB_SETTINGS": "SLOW"}
        return subprocess.Popen(
            [*command, "--ray-address", "ray" if "RAY_ADDRESS" in environment else f"ray://127.0.0.1:{self.client}"],
            env=self.environment | own | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    def end(self) -> None:
        for process in reversed(self.nodes):
            with_group(process, signal.SIGTERM)
        for process in self.nodes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                with_group(process, signal.SIGKILL)
                process.wait()


def with_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def install_ray(folder: Path) -> None:
    """Make an environment with Ray that sees what this Python has."""
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", RAY], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    own = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "own.pth").write_text("\n".join(own))


@pytest.fixture(name="python", scope="module")
def python_with_ray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has Ray, and what this one has."""

    return once(shared_folder(tmp_path_factory) / "ray", install_ray) / "bin" / "python"


@contextmanager
def head(python: Path, child: Path) -> Iterator[Cluster]:
    """Return a cluster of one node. Its folder has a short name, for the names of its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    cluster = Cluster(python, child, folder)
    try:
        cluster.start_head()
        cluster.has(1)
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="cluster")
def two_nodes(python: Path, child: Path) -> Iterator[Cluster]:
    """Return a cluster of two nodes."""
    with head(python, child) as cluster:
        cluster.join()
        cluster.has(2)
        yield cluster


def done(process: subprocess.Popen[str], code: int = 0) -> str:
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it still runs, and said: {ended(process)}")
    assert process.returncode == code, said
    return said


def ended(process: subprocess.Popen[str]) -> str:
    """Kill a job and return its output."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


def begun(output: Output) -> Callable[[], bool]:
    return lambda: len(list(output.path.glob("_parts/*.parquet"))) > 2


def wait_for(found: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not found():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"it has written nothing, and said: {ended(process)}"
        time.sleep(0.05)


def members() -> list[int]:
    """Return the processes that do the work of this file's jobs, each a child of an actor."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if (
            b"JOB_WORKER=" in told
            and PACKAGE.encode() in command
            and b"--ray-address" in command
            and b".job" not in command
        ):
            found.append(int(folder.name))
    return found
