"""Measure locking, fetching, verifying and packing large weights; write benchmarks/results/weights.json.

usage: python -m benchmarks.weights.run [--gib 5]

A file of random bytes lies on a web server of this machine, so that no network is measured: what is left are the
program and the disk. It takes twice its size of the disk for a while, and starts only where 20 GiB stay free.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_repo_runtime.weights import packing
from gpu_repo_runtime.weights.lockfile import LOCK, read

from benchmarks.result_files import as_json, machine, write_result

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "benchmarks" / "results" / "weights.json"
GIB = 1 << 30
STAYS_FREE = 20 * GIB


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder by another process; give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                urllib.request.urlopen(address).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def weights(project: Path, cache: Path, *words: str) -> None:
    """Run scripts/weights in a project, quiet."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "runtime" / "src"), "WEIGHTS_CACHE": str(cache)}
    command = [sys.executable, "-m", "gpu_repo_runtime.weights", *words]
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    begin = time.perf_counter()
    work()
    return round(time.perf_counter() - begin, 2)


def measure(folder: Path, gib: float) -> dict[str, float]:
    """Return the seconds of each step for a file of so many GiB."""
    source, project, cache = folder / "source", folder / "project", folder / "cache"
    source.mkdir()
    project.mkdir()
    with (source / "model.safetensors").open("wb") as file:
        for _ in range(round(gib * 64)):
            file.write(os.urandom(GIB // 64))
    with served(source) as address:
        (project / "weights.toml").write_text(f'[model]\nsource = "{address}"\nfiles = ["model.safetensors"]\n')
        steps = {"lock": seconds(lambda: weights(project, cache, "lock"))}
        shutil.rmtree(cache)
        steps["fetch"] = seconds(lambda: weights(project, cache, "fetch"))
        steps["fetch_again"] = seconds(lambda: weights(project, cache, "fetch"))
    steps["verify"] = seconds(lambda: weights(project, cache, "verify"))
    layers = packing.layers_of(source.parent, read(project / LOCK))
    blob = next(
        path for path in cache.rglob("*") if path.is_file() and path.stat().st_size == round(gib * 64) * GIB // 64
    )
    large = max(layers, key=lambda layer: layer.size)
    return steps | {"layer": seconds(packing.Layer(large.path, large.size_of_file, blob).digest)}


def main() -> int:
    """Measure, print, write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        free = shutil.disk_usage(name).free
        if free < STAYS_FREE + 2 * options.gib * GIB:
            print(f"weights: {free / GIB:.0f} GiB are free, too few for --gib {options.gib:g}", file=sys.stderr)
            return 1
        steps = measure(Path(name), options.gib)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    result = {"commit": commit.stdout.strip(), "machine": machine(), "gib": options.gib, "seconds": steps}
    write_result(TARGET, result)
    print(as_json(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
