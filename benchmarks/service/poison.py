"""What clients cost the others that send ever new texts on which the model fails, each on a new connection.

usage: python -m benchmarks.service.poison [--before COMMIT] [--rounds 3] [--seconds 6]

The service runs on core 0 with the stand-in for a device of models.py, 6 ms a call and 0.2 ms a text, and all clients
on core 1, in closed loops. The others keep their connections, or open one for each request: from an address of their
own, or from the attackers' (as behind a gateway). Who attacks has one request or many in flight, or hangs up after
10 ms and comes again; its process has a lower priority. --before measures the runtime of an earlier commit too.
Writes benchmarks/results/service-poison.json: the median of the rounds.
"""

import argparse
import asyncio
import datetime
import io
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tarfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpu_repo_runtime.bench.load import Connection

from benchmarks.result_files import machine, write_result

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/bench-poison"
PORT = 8950
NOW, BEFORE = "now", "before"
MODEL = '''"""The device's stand-in, which fails on some texts."""

from models import Model as Device


class Model(Device):
    def predict(self, batch: list[str]) -> list[dict]:
        answers = super().predict(batch)  # a device finds it out at the end
        if any(text.startswith("poison") for text in batch):
            raise ValueError("poison")
        return answers
'''
KEPT, NEW, SAME = "kept connections", "new connections", "new connections from the attackers' address"
# 64 that connect for each request keep the core of the clients busy, and not the service.
OTHERS = ((KEPT, 8), (KEPT, 64), (NEW, 8), (SAME, 8))
# Clients, and the seconds after which they hang up.
ATTACKERS = {"0": (0, None), "1": (1, None), "2": (2, None), "4": (4, None), "240": (240, None)}
ATTACKERS |= {"64 who hang up": (64, 0.010)}
GOOD_HOST, BAD_HOST = "127.0.0.2", "127.0.0.3"
number = itertools.count()


def sources(commit: str) -> Path:
    """Return the folder of the runtime's packages as a commit has them."""
    folder = BUILD / commit
    shutil.rmtree(folder, ignore_errors=True)
    packed = subprocess.run(["git", "archive", commit, "runtime/src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "runtime/src"


def start(packages: Path) -> subprocess.Popen[bytes]:
    """Start the service and wait until it is ready."""
    own = BUILD / "src/topic_finder"
    own.mkdir(parents=True, exist_ok=True)
    (own / "__init__.py").touch()
    (own / "model.py").write_text(MODEL)
    paths = os.pathsep.join(map(str, (own.parent, packages, HERE)))
    settings = {"PORT": str(PORT), "LISTEN_HOST": "127.0.0.1", "DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **settings, "PYTHONPATH": paths, "BENCH_MODEL": "device"}
    command = ["taskset", "-c", "0", sys.executable, "-m", "gpu_repo_runtime.serving", "topic_finder"]
    with (BUILD / "service.log").open("w") as log:
        service = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=BUILD)
    end = time.monotonic() + 60
    while time.monotonic() < end and service.poll() is None:
        try:
            if asyncio.run(ask("127.0.0.1", b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n")) == 200:
                return service
        except OSError:
            time.sleep(0.05)
    service.kill()
    sys.exit(f"the service did not become ready: see {BUILD / 'service.log'}")


def request(text: str) -> bytes:
    """The bytes of a request with one text."""
    body = json.dumps({"texts": [text]}).encode()
    head = f"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def close(connection: Connection) -> None:
    """Close after an answer, with a reset: the port of a closed connection is taken for a minute.

    After some thousands of these the kernel looks for a free one for milliseconds, which would count as the service's.
    """
    socket_ = connection.transport.get_extra_info("socket")
    socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.close()
    connection.closed = True


async def connect(host: str) -> Connection:
    """Connect from an address."""
    connection, loop = Connection(), asyncio.get_running_loop()
    connection.transport, _ = await loop.create_connection(lambda: connection, "127.0.0.1", PORT, local_addr=(host, 0))
    connection.closed = False
    return connection


async def ask(host: str, asked: bytes) -> int:
    """Return the status of the answer to a request on a connection of its own."""
    connection = await connect(host)
    try:
        status, _ = await connection.send(asked)
    finally:
        connection.transport.close()
    return status


async def client(
    host: str, prefix: str, end: float, found: list[tuple[int, float]], *, kept: bool, patience: float | None = None
) -> None:
    """Ask in a closed loop, with a new text each time; hang up after ``patience``, in seconds."""
    connection = await connect(host)
    while (begun := time.monotonic()) < end:
        asked = request(f"{prefix} {os.getpid()} {next(number)}")
        if connection.closed:
            connection = await connect(host)
        try:
            status, _ = await asyncio.wait_for(connection.send(asked), patience)
        except (TimeoutError, OSError):
            status = 499
        if status == 499:
            connection.transport.close()
            connection.closed = True
        elif not (kept or connection.closed):
            close(connection)
        found.append((status, time.monotonic() - begun))
    connection.transport.close()


async def crowd(host: str, prefix: str, count: int, seconds: float, **how: Any) -> list[tuple[int, float]]:
    """Return status and time of every request of so many clients."""
    found: list[tuple[int, float]] = []
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(host, prefix, end, found, **how) for _ in range(count)))
    return found


def attack(name: str, seconds: float) -> Counter[int]:
    """Send poison; return how often which status was the answer. Runs in a process of its own."""
    os.nice(10)
    count, patience = ATTACKERS[name]
    found = asyncio.run(crowd(BAD_HOST, "poison", count, seconds, kept=False, patience=patience))
    return Counter(status for status, _ in found)


def load(kind: str, good: int, bad: str, seconds: float) -> dict[str, Any]:
    """Return what the others got in a run."""
    host = BAD_HOST if kind == SAME else GOOD_HOST
    with ProcessPoolExecutor(1) as pool:
        attackers = pool.submit(attack, bad, seconds)
        others = asyncio.run(crowd(host, "fine", good, seconds, kept=kind == KEPT))
        told = attackers.result()
    statuses = Counter(status for status, _ in others)
    times = sorted(took for _, took in others) or [float("nan")]
    return {
        "rate": round(statuses[200] / seconds, 1),
        "wrong": statuses.total() - statuses[200],
        "p50_ms": round(times[len(times) // 2] * 1e3, 1),
        "p99_ms": round(times[len(times) * 99 // 100] * 1e3, 1),
        "longest_ms": round(times[-1] * 1e3, 1),
        "poison_rate": round(told.total() / seconds, 1),
    }


def measure(packages: Path, kind: str, good: int, bad: str, seconds: float) -> dict[str, Any]:
    """Run one load against a service of its own."""
    service = start(packages)
    try:
        load(kind, good, "0", 1)
        return load(kind, good, bad, seconds)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(40)


def median(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", metavar="COMMIT", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service-poison.json")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {1})
    versions = {NOW: sources("HEAD")} | ({BEFORE: sources(options.before)} if options.before else {})
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for (kind, good), bad, version in itertools.product(OTHERS, ATTACKERS, versions):
            row = measure(versions[version], kind, good, bad, options.seconds)
            rows.setdefault((version, kind, good, bad), []).append(row)
            print(version, kind, good, bad, json.dumps(row), flush=True)
    names = ("version", "others", "clients", "attackers")
    result: dict[str, Any] = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "machine": machine()}
    result |= {"before": options.before} if options.before else {}
    result["rounds"] = options.rounds
    result["cells"] = [dict(zip(names, key, strict=True)) | median(found) for key, found in rows.items()]
    write_result(options.out, result)


if __name__ == "__main__":
    main()
