"""The service on a GPU: requests a second beside the CPU, the memory plan against what is used, and no memory left."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.harness import serving

SENTENCE = "The central bank raised interest rates by a quarter of a point after inflation went up again."
TEXTS = {"20 tokens": SENTENCE, "250 tokens": " ".join([SENTENCE] * 14)}
CLIENTS = (1, 16, 64)
SHOWN = ("service_batch_limit", "service_gpu", "service_memory")


def environment(folder: Path, child: str, **more: str) -> dict[str, str]:
    """Return the environment in which a child's code runs from the prepared folder."""
    paths = os.pathsep.join([str(folder / child / "src"), str(folder / "packages")])
    return {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", **more}


class Service:
    """A running service of a prepared child."""

    def __init__(self, url: str) -> None:
        self.url = url

    def metrics(self) -> dict[str, float]:
        """Return the metrics about batches and memory."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (s.rpartition(" ") for s in lines) if name.startswith(SHOWN)}

    def load(self, text: str, clients: int, seconds: float) -> dict[str, Any]:
        """Load the service in a closed loop, after a second that does not count."""
        import uvloop
        from gpu_repo_runtime.bench.load import Target

        target = Target(self.url, [text])
        uvloop.run(target.closed_loop(clients, 1))
        return asdict(uvloop.run(target.closed_loop(clients, seconds)))

    def ask(self, text: str) -> dict[str, Any]:
        """Send one text; return status and the beginning of the answer."""
        body = json.dumps({"instances": [text]}).encode()
        request = urllib.request.Request(f"{self.url}/predict", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return {"status": answer.status, "body": answer.read().decode()[:300]}
        except urllib.error.HTTPError as error:
            return {"status": error.code, "body": error.read().decode()[:300]}


@contextmanager
def service(folder: Path, child: str, log: Path, port: int, **settings: str) -> Iterator[Service]:
    """Run the service of a prepared child."""
    own = {"PORT": str(port), "LISTEN_HOST": "127.0.0.1", "LOG_FORMAT": "text", "MAX_QUEUE": "1024"} | settings
    url, command = f"http://127.0.0.1:{port}", [sys.executable, "-m", "gpu_repo_runtime.serving", "trial"]
    with serving(command, environment(folder, child, **own), urllib.request.Request(f"{url}/readyz"), log):
        yield Service(url)


def throughput(folder: Path, logs: Path, seconds: float, ways: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return a row for each way, text and number of clients. ways: the settings of each."""
    rows = []
    for port, (way, settings) in enumerate(ways.items(), 8940):
        own, began = settings | {"BENCH_MODEL": "encoder"}, time.monotonic()
        with service(folder, "encoder", logs / f"service-{way.replace(' ', '-')}.log", port, **own) as running:
            ready_s = round(time.monotonic() - began, 1)
            for (name, text), clients in product(TEXTS.items(), CLIENTS):
                row = running.load(text, clients, seconds)
                rows.append({"on": way, "text": name, "clients": clients, "ready_s": ready_s, **row})
                print(f"service {rows[-1]}", flush=True)
    return rows


def plan_of(log: Path) -> dict[str, float]:
    """Return the megabytes of the memory plan that a service logged, and its largest batch."""
    words = r"weights ([\d,.]+) MB, a call ([\d,.]+) MB \+ ([\d,.]+) MB for each .*?at most (\d+)"
    found = re.search(words, log.read_text())
    if not found:
        return {}
    weights, call, each, most = (float(number.replace(",", "")) for number in found.groups())
    whole = weights + call + most * each
    return {"weights_mb": weights, "call_mb": call, "each_mb": each, "batch": most, "whole_mb": whole}


def memory(folder: Path, logs: Path, seconds: float) -> dict[str, Any]:
    """Return what a service did whose model fills the GPU, with inputs as planned, larger, and far too large."""
    log = logs / "service-memory.log"
    found: dict[str, Any] = {}
    with service(folder, "hungry", log, 8950, DEVICE="cuda", MAX_BATCH_SIZE="64", MAX_TEXT_CHARS="10") as running:

        def step(name: str, did: dict[str, Any]) -> None:
            found[name] = did | {"metrics": running.metrics()}
            print(f"memory, {name}: {found[name]}", flush=True)

        found["plan"] = plan_of(log)
        step("alone", running.load("size:2", 64, seconds))
        step("inputs larger than the plan knew", running.load("size:3", 64, seconds))
        step("an input that fits nowhere", running.ask("size:500"))
        step("and then", running.load("size:2", 64, seconds))
    return found
