"""The job on Ray: places and refusals in this process, and all its promises on a cluster of two nodes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gpu_repo_runtime.batch import member
from gpu_repo_runtime.batch.exits import JobError
from gpu_repo_runtime.batch.onray import Places, places_for

from tests.batch.conftest import PACKAGE, Job, Output, texts, write_jsonl
from tests.shared import once, shared_folder

RAY = "ray[client]==2.60.0"
OPTIONS = ("--part-rows", 25, "--batch-size", 8, "--on-error", "quarantine", "--max-bad", "0.5")


def node(alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "places"),
    [
        ([node(CPU=4), node(CPU=4)], "auto", None, Places(2, "cpu", 4)),
        ([node(CPU=16), node(CPU=4)], "cpu", None, Places(2, "cpu", 4)),
        ([node(CPU=4), node(CPU=4, alive=False)], "auto", None, Places(1, "cpu", 4)),
        ([node(CPU=8), node(CPU=8, GPU=4)], "auto", None, Places(4, "cuda", 2)),
        ([node(CPU=8, GPU=1), node(CPU=8, GPU=1)], "cpu", None, Places(2, "cpu", 8)),
        ([node(CPU=1)], "auto", 3, Places(3, "cpu", 1)),
        ([node()], "cuda", 2, Places(2, "cuda", 1)),
    ],
)
def test_a_place_for_each_gpu_or_node(nodes, device, workers, places):
    assert places_for(nodes, device, workers) == places


def test_a_gpu_that_is_asked_for_is_not_replaced(capsys):
    with pytest.raises(JobError, match="no node of the Ray cluster has a GPU"):
        places_for([node(CPU=4)], "cuda", None)
    places_for([node(CPU=4)], "auto", None)
    assert "cpu: no node of the Ray cluster has a GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--on", "ray://127.0.0.1:1"), 'write "gpu-repo-runtime[ray]" among the dependencies'),
        (("--on", "spark://a:1"), "write ray://HOST:PORT"),
        (("--on", "ray://127.0.0.1:1", "--shard", "0/2"), "shares the work out itself"),
    ],
)
def test_what_cannot_be_is_one_line(job, out, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setitem(sys.modules, "ray", None)
    lines = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", lines, "--output", out.path, *options) == 78
    assert message in capsys.readouterr().err
    assert not out.path.exists()


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
        self.environment.pop("PYTHONPATH", None)

    def start(self, *options: str) -> None:
        common = ["--num-cpus=1", "--object-store-memory=100000000", "--block", "--disable-usage-stats"]
        command = [self.python.parent / "ray", "start", *options, *common]
        log = (self.folder / f"node-{len(self.nodes)}.log").open("wb")
        self.nodes.append(
            subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        )
        log.close()

    def start_head(self) -> None:
        client = f"--ray-client-server-port={self.client}"
        temporary = f"--temp-dir={self.folder}"
        self.start("--head", f"--port={self.port}", client, temporary, "--include-dashboard=false")

    def join(self) -> None:
        self.start(f"--address=127.0.0.1:{self.port}")

    def count(self) -> int:
        code = f"import ray; ray.init('127.0.0.1:{self.port}', logging_level='ERROR'); " + (
            "print('nodes', sum(n['Alive'] for n in ray.nodes()))"
        )
        done = subprocess.run([self.python, "-c", code], env=self.environment, capture_output=True, text=True)
        return int(done.stdout.split()[-1]) if "nodes" in done.stdout else 0

    def has(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while self.count() != count:
            assert time.monotonic() < deadline, [p.read_text()[-2000:] for p in self.folder.glob("node-*.log")]
            time.sleep(1)

    def run_inside(self, *arguments: object) -> subprocess.Popen[str]:
        """Start the job on the cluster as from one of its nodes, without the server for clients."""
        return self.run(*arguments, RAY_ADDRESS=f"127.0.0.1:{self.port}")

    def run(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start the job on the cluster."""
        command = [self.python, "-m", f"{PACKAGE}.job", "run", *map(str, arguments)]
        own = {"PYTHONPATH": Job(self.child).path, "JOB_SETTINGS": "SLOW"}
        return subprocess.Popen(
            [*command, "--on", "ray" if "RAY_ADDRESS" in environment else f"ray://127.0.0.1:{self.client}"],
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


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has Ray, and what this one has."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", RAY], check=True)
        [packages] = folder.glob("lib/python*/site-packages")
        own = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "own.pth").write_text("\n".join(own))

    return once(shared_folder(tmp_path_factory) / "ray", make) / "bin" / "python"


@pytest.fixture
def cluster(python: Path, child: Path) -> Iterator[Cluster]:
    """Return a cluster. Its folder has a short name, for the names of its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    cluster = Cluster(python, child, folder)
    try:
        cluster.start_head()
        cluster.has(1)
        cluster.join()
        cluster.has(2)
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an input with bad rows."""
    source = tmp_path / "in"
    source.mkdir()
    lines = texts(600)
    lines[7] = lines[403] = "RAISE"
    write_jsonl(source / "a.jsonl", lines)
    (source / "b.jsonl").write_text('{"text": 1}\n')
    return source


@pytest.fixture
def whole(job: Job, folder: Path, tmp_path: Path) -> Output:
    """Return the output of a run on one machine that nobody disturbs."""
    output = Output(tmp_path / "whole")
    assert job("--input", folder, "--output", output.path, *OPTIONS) == 0
    assert len(output.quarantined()) == 3
    return output


@pytest.fixture
def arguments(folder: Path, tmp_path: Path):
    """Return what gives an output of a name, and the options of a run into it."""

    def made(name: str) -> tuple[Output, tuple[object, ...]]:
        output = Output(tmp_path / name)
        return output, ("--input", folder, "--output", output.path, *OPTIONS)

    return made


def done(process: subprocess.Popen[str], code: int = 0) -> str:
    said, _ = process.communicate(timeout=180)
    assert process.returncode == code, said
    return said


def begun(output: Output):
    return lambda: len(list(output.path.glob("_records/*"))) > 2


def wait_for(found, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not found():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
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
        if b"JOB_WORKER=" in told and PACKAGE.encode() in command and b"--on" in command and b".job" not in command:
            found.append(int(folder.name))
    return found


def test_in_a_new_folder_the_others_see_what_the_first_node_leaves(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(member, "PATIENCE", 0.0)
    first = member.look(PACKAGE, str(tmp_path / "out"), "token", first=True)
    assert member.look(PACKAGE, str(tmp_path / "out"), "token", first=False) == first


@pytest.mark.release
def test_two_nodes_give_what_one_machine_gives_also_when_a_worker_is_killed(cluster, whole, arguments):
    undisturbed, options = arguments("undisturbed")
    said = done(cluster.run(*options))
    assert undisturbed.digest() == whole.digest(), said
    assert {run["shard"] for run in undisturbed.read_json("_provenance.json")["runs"]} == {"0/1.0/2", "0/1.1/2"}

    killed, options = arguments("worker killed")
    process = cluster.run(*options)
    wait_for(begun(killed), process)
    os.kill(max(members()), signal.SIGKILL)
    said = done(process)
    assert "begins again, try 2 of 4" in said
    assert killed.digest() == whole.digest(), said


@pytest.mark.release
def test_stops_bad_rows_and_a_lost_node(cluster, folder, whole, arguments):
    """Started on a node of the cluster, as a RayJob is; the node is killed last."""

    resumed, options = arguments("driver killed")
    process = cluster.run_inside(*options)
    wait_for(begun(resumed), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    both = [cluster.run_inside(*options), cluster.run_inside(*options)]
    said = "".join(done(one) for one in both)
    assert resumed.digest() == whole.digest(), said

    stopped, options = arguments("stopped")
    process = cluster.run_inside(*options)
    wait_for(begun(stopped), process)
    process.terminate()
    done(process, 143)
    assert not stopped.complete
    done(cluster.run_inside(*options))
    assert stopped.digest() == whole.digest()

    other, options = arguments("bad")
    said = done(cluster.run_inside("--input", folder, "--output", other.path), 65)
    assert "a.jsonl, row 7: ValueError" in said
    assert not other.complete

    lost, options = arguments("node killed")
    process = cluster.run_inside(*options)
    wait_for(begun(lost), process)
    os.killpg(cluster.nodes[1].pid, signal.SIGKILL)
    said = done(process)
    assert lost.digest() == whole.digest(), said
