"""The service on a GPU: requests a second next to the CPU, the memory plan against what is used, and no memory left."""

from __future__ import annotations

import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from gpu_repo_runtime.client import ask

from benchmarks.harness import serving

SENTENCE = "The central bank raised interest rates by a quarter of a point after inflation went up again."
TEXTS = {"20 tokens": SENTENCE, "250 tokens": " ".join([SENTENCE] * 14)}
WAYS = {
    "CPU": {"DEVICE": "cpu"},
    "GPU": {"DEVICE": "cuda"},
    "GPU, float16": {"DEVICE": "cuda", "PRECISION": "float16", "MAX_BATCH_SIZE": "64"},
}
PORT, CLIENTS = 8940, (1, 16, 64)
SHOWN = ("service_batch_limit", "service_gpu", "service_memory")
PLAN = re.compile(r"weights ([\d,.]+) MB, a call ([\d,.]+) MB \+ ([\d,.]+) MB for each .*?at most (\d+)")


def environment(folder: Path, child: str, **more: str) -> dict[str, str]:
    """Return the environment in which a child's code runs from the prepared folder."""
    paths = os.pathsep.join([str(folder / child / "src"), str(folder / "packages")])
    own = {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "BENCH_MODEL": "encoder"}
    return {**os.environ, **own, **more}


@contextmanager
def service(folder: Path, child: str, log: Path, **settings: str) -> Iterator[str]:
    """Run the service of a prepared child; yield its address."""
    own = {"PORT": str(PORT), "LISTEN_HOST": "127.0.0.1", "LOG_FORMAT": "text", "MAX_QUEUE": "1024"} | settings
    url, command = f"http://127.0.0.1:{PORT}", [sys.executable, "-m", "gpu_repo_runtime.serving", "trial"]
    with serving(command, environment(folder, child, **own), urllib.request.Request(f"{url}/readyz"), log):
        yield url


def load(url: str, text: str, clients: int, seconds: float) -> dict[str, Any]:
    """Load a service in a closed loop, after a second that does not count; the client sends about 4,000 a second."""
    from gpu_repo_runtime import bench

    bench.load(url, [text], clients, 1)
    return bench.load(url, [text], clients, seconds)


def metrics(url: str) -> dict[str, float]:
    """Return the metrics about batches and memory."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = [line.rpartition(" ") for line in answer.read().decode().splitlines()]
    return {name: float(value) for name, _, value in lines if name.startswith(SHOWN)}


def throughput(folder: Path, logs: Path, seconds: float) -> list[dict[str, Any]]:
    """Return requests a second of the encoder: a row for each way, text and number of clients."""
    rows = []
    for way, settings in WAYS.items():
        began = time.monotonic()
        with service(folder, "encoder", logs / "service.log", **settings) as url:
            ready_s = round(time.monotonic() - began, 1)
            for (name, text), clients in product(TEXTS.items(), CLIENTS):
                row = load(url, text, clients, seconds)
                rows.append({"on": way, "text": name, "clients": clients, "ready_s": ready_s, **row})
                print(f"service {rows[-1]}", flush=True)
    return rows


def plan_of(log: Path) -> dict[str, float]:
    """Return the megabytes of the memory plan that a service logged, and its largest batch."""
    found = PLAN.search(log.read_text())
    assert found, "the log shows no memory plan"
    weights, call, each, most = (float(number.replace(",", "")) for number in found.groups())
    return {"batch": most, "whole_mb": weights + call + most * each}


def memory(folder: Path, logs: Path, seconds: float) -> dict[str, Any]:
    """Return what a service did whose model fills the GPU, with inputs as planned and one that is far too large."""
    log, limits = logs / "memory.log", {"DEVICE": "cuda", "MAX_BATCH_SIZE": "64", "MAX_TEXT_CHARS": "10"}
    found: dict[str, Any] = {}
    with service(folder, "hungry", log, **limits) as url:
        found["plan"] = plan_of(log)
        for step, text in (
            ("alone", "size:2"),
            ("an input that fits nowhere", "size:500"),
            ("and then", "size:2"),
        ):
            if text == "size:500":
                found[step] = {"status": ask(f"{url}/predict", {"instances": [text]})[0]}
            else:
                found[step] = load(url, text, 64, seconds)
            found[step]["metrics"] = metrics(url)
            print(f"memory, {step}: {found[step]}", flush=True)
    return found
