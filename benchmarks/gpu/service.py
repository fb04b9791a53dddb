"""The service on a GPU: requests a second beside the CPU, the memory plan against what is used, and no memory left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

SENTENCE = "The central bank raised interest rates by a quarter of a point after inflation went up again."
TEXTS = {"20 tokens": SENTENCE, "250 tokens": " ".join([SENTENCE] * 14)}
CLIENTS = (1, 16, 64)
START_S, STOP_S = 120, 40
SHOWN = ("service_batch_limit", "service_gpu", "service_memory")


def environment(folder: Path, child: str, **more: str) -> dict[str, str]:
    """Return the environment in which a child's code runs from the prepared folder."""
    paths = os.pathsep.join([str(folder / child / "src"), str(folder / "packages")])
    return {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", **more}


class Service:
    """A running service of a prepared child; `ready_s` is the time until /readyz said yes."""

    def __init__(self, folder: Path, child: str, log: Path, port: int, **settings: str) -> None:
        own = {"PORT": str(port), "LISTEN_HOST": "127.0.0.1", "LOG_FORMAT": "text", "MAX_QUEUE": "1024"} | settings
        self.url, self._log = f"http://127.0.0.1:{port}", log
        command = [sys.executable, "-m", "gpu_repo_runtime.serving", "trial"]
        with log.open("w") as written:
            self._process = subprocess.Popen(
                command, env=environment(folder, child, **own), stdout=written, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        began = time.monotonic()
        while self._process.poll() is None and time.monotonic() - began < START_S:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/readyz"):
                self.ready_s = round(time.monotonic() - began, 1)
                return self
            time.sleep(0.1)
        self._process.kill()
        raise RuntimeError(f"the service did not start: {self._log.read_text()[-800:]}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._process.kill()

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


def throughput(folder: Path, logs: Path, seconds: float, ways: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return a row for each way, text and number of clients. ways: the settings of each."""
    rows = []
    for port, (way, settings) in enumerate(ways.items(), 8940):
        with Service(folder, "encoder", logs / f"service-{way.replace(' ', '-')}.log", port, **settings) as service:
            for name, text in TEXTS.items():
                for clients in CLIENTS:
                    row = service.load(text, clients, seconds)
                    rows.append({"on": way, "text": name, "clients": clients, "ready_s": service.ready_s, **row})
                    print(
                        f"service {way}, {name}, {clients} clients: {row['rate']} a second, p99 {row['p99']} ms",
                        flush=True,
                    )
    return rows


def plan_of(log: Path) -> dict[str, float]:
    """Return the megabytes of the memory plan that a service logged, and its largest batch."""
    found = re.search(
        r"weights ([\d,.]+) MB, a call ([\d,.]+) MB \+ ([\d,.]+) MB for each .*?at most (\d+)", log.read_text()
    )
    if not found:
        return {}
    weights, call, each, most = (float(number.replace(",", "")) for number in found.groups())
    return {
        "weights_mb": weights,
        "call_mb": call,
        "each_mb": each,
        "batch": most,
        "whole_mb": weights + call + most * each,
    }


def memory(folder: Path, logs: Path, seconds: float) -> dict[str, Any]:
    """Return what a service did whose model fills the GPU, with inputs as planned, larger, and far too large."""
    log = logs / "service-memory.log"
    found: dict[str, Any] = {}
    with Service(folder, "hungry", log, 8950, DEVICE="cuda", MAX_BATCH_SIZE="64", MAX_TEXT_CHARS="10") as service:

        def step(name: str, did: dict[str, Any]) -> None:
            found[name] = did | {"metrics": service.metrics()}
            print(f"memory, {name}: {found[name]}", flush=True)

        found["plan"] = plan_of(log)
        step("alone", service.load("size:2", 64, seconds))
        step("inputs larger than the plan knew", service.load("size:3", 64, seconds))
        step("an input that fits nowhere", service.ask("size:500"))
        step("and then", service.load("size:2", 64, seconds))
    return found
