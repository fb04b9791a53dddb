"""Compare the service of this checkout with that of another commit, in pairs: the same model, load and machine.

usage: python -m benchmarks.service.pairs --before COMMIT [--rounds 3] [--seconds 3]

Processor time per request is what counts on a machine that is not quiet. `tiny` takes no time, `device` 6 ms a call and
0.2 ms a text, `failing` is `device` with 1 % of texts that fail, `impatient` has 8 clients beside 64 that give up after
10 ms. Writes benchmarks/results/service-pairs.json.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from gpu_repo_runtime.bench.load import Connection, Target

from benchmarks.result_files import machine, write_result

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
import time
Input = str
Output = dict[str, str]
class Model:
    examples = ("one", "two")
    def load(self, device): pass
    def predict(self, batch: list[Input]) -> list[Output]:
        {sleep}
        if any("poison" in text for text in batch):
            raise ValueError("poison")
        return [{{"label": text[:3]}} for text in batch]
"""
TICKS = os.sysconf("SC_CLK_TCK")
LOADS = [("tiny", 1), ("tiny", 16), ("tiny", 64), ("device", 1), ("device", 16), ("device", 64), ("failing", 32)]


class Texts(list[str]):
    """Texts without end, all different; a share of them makes the model fail."""

    def __init__(self, share: float) -> None:
        super().__init__(["text"])
        self._share, self._chance = share, random.Random(1)

    def __getitem__(self, index: Any) -> Any:
        return f"{'poison' if self._chance.random() < self._share else 'text'} {self._chance.random()}"


@contextmanager
def service(source: Path, model: str) -> Iterator[tuple[str, int]]:
    """Start the service of a checkout; give its address and process id."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "bench_model"
        package.mkdir()
        (package / "__init__.py").touch()
        sleep = "pass" if model == "tiny" else "time.sleep(0.006 + 0.0002 * len(batch))"
        (package / "model.py").write_text(MODEL.format(sleep=sleep))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        own = {"PORT": str(port), "LISTEN_HOST": "127.0.0.1", "DEVICE": "cpu", "LOG_FORMAT": "json"}
        environment = {**os.environ, **own, "PYTHONPATH": f"{source}{os.pathsep}{folder}"}
        command = [sys.executable, "-m", "gpu_repo_runtime.serving", "bench_model"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            while True:
                with suppress(OSError), urllib.request.urlopen(f"{url}/readyz"):
                    break
                time.sleep(0.1)
            yield url, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def leave(url: str, seconds: float) -> None:
    """Let 64 clients send a request and close their connection after 10 ms, again and again."""
    target, end = Target(url, ["text"]), time.perf_counter() + seconds

    async def leaver(request: bytes) -> None:
        while time.perf_counter() < end:
            connection = await Connection().open(target.host, target.port)
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(connection.send(request), 0.01)
            connection.transport.close()

    async def leavers() -> None:
        await asyncio.gather(*(leaver(target.request(["a text"])) for _ in range(64)))

    asyncio.run(leavers())


def measure(source: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Return rate, 99th percentile (ms) and processor time per request (µs) of each load."""
    found: dict[str, dict[str, float]] = {}
    for model in ("tiny", "device"):
        with service(source, model) as (url, pid):
            for name, clients in LOADS:
                if name not in (model, "failing" if model == "device" else ""):
                    continue
                target = Target(url, Texts(0.01 if name == "failing" else 0.0))
                asyncio.run(target.closed_loop(clients, 0.5))
                before = processor_seconds(pid)
                row = asyncio.run(target.closed_loop(clients, seconds))
                used = processor_seconds(pid) - before
                about = {"rate": row.rate, "p99_ms": row.p99, "cpu_us": round(used / max(1, row.answered) * 1e6)}
                found[f"{name} {clients}"] = about
            if model == "device":
                target = Target(url, ["text"])
                alone = asyncio.run(target.closed_loop(8, seconds)).rate
                others = multiprocessing.Process(target=leave, args=(url, seconds))
                others.start()
                found["impatient"] = {"alone": alone, "beside": asyncio.run(target.closed_loop(8, seconds)).rate}
                others.join()
    return found


def main() -> None:
    """Measure both in turn, and write the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", options.before, "runtime/src"]
        archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        sources = {"before": Path(folder) / "runtime/src", "now": ROOT / "runtime/src"}
        rounds: list[dict[str, Any]] = []
        for _ in range(options.rounds):
            rounds.append({name: measure(source, options.seconds) for name, source in sources.items()})
            print(rounds[-1], flush=True)
    rows = []
    for load, about in rounds[0]["now"].items():
        for name in sources:
            medians = {key: statistics.median(one[name][load][key] for one in rounds) for key in about}
            rows.append({"load": load, "version": name, **medians})
    about_run = machine(["uvicorn", "fastapi", "prometheus-client"], before=options.before, rounds=options.rounds)
    result = {"machine": about_run, "rows": rows}
    write_result(ROOT / "benchmarks/results/service-pairs.json", result)
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
