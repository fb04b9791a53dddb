"""Measure size and cold import time of base images against plain pip installations of the same locks.

usage: python -m benchmarks.images.run [--out FILE]

The plain installations are on the same operating system image. Images must be built (make images), an engine must
answer, and dropping the page cache needs root. Writes benchmarks/images/results.json.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import docker
from image_tools.catalog import DEFAULT_REGISTRY, FOLDER, read_catalog

from benchmarks.harness import Figures, machine, medians, take_turns, write_result
from benchmarks.images.layers import measure, total

HERE = Path(__file__).resolve().parent
RELEASE = read_catalog()["release"]
COMPARED = {"torch-cu13": "torch", "torch-cu12": "torch", "tensorflow-cu12": "tensorflow"}
ROUNDS = 5


def run(*command: str | Path) -> str:
    """Run a program and return what it prints. Raises CalledProcessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def cold_import(tag: str, module: str) -> Figures:
    """Return the seconds that `import module` takes in a fresh container with an empty page cache."""
    run("sync")
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return {"s": float(run("docker", "run", "--rm", "--network=none", tag, "python", "-c", code).split()[-1])}


def compare(client: docker.DockerClient, name: str, module: str) -> dict[str, Any]:
    """Return size and cold import time of an image and of its plain installation, which is removed again."""
    tags = {"image": f"{DEFAULT_REGISTRY}/{name}:{RELEASE}", "plain": f"plain.example.com/{name}"}
    run("docker", "build", "--quiet", "--tag", tags["plain"], "--file", HERE / "plain.Dockerfile", FOLDER / name)
    sizes = {kind: round(total(measure(client, tag)) / 1e6, 1) for kind, tag in tags.items()}
    turns = take_turns({kind: partial(cold_import, tag, module) for kind, tag in tags.items()}, ROUNDS)
    run("docker", "image", "rm", "--force", tags["plain"])
    run("docker", "builder", "prune", "--force")  # gigabytes of each
    times = {kind: round(medians(rounds)["s"], 2) for kind, rounds in turns.items()}
    return {
        "compressed_mb": {**sizes, "ratio": round(sizes["image"] / sizes["plain"], 4)},
        "import_s": {**times, "ratio": round(times["image"] / times["plain"], 3)},
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    client = docker.from_env(timeout=1800)
    figures = {name: compare(client, name, module) for name, module in COMPARED.items()}
    about = machine(docker=client.version()["Version"], date=time.strftime("%Y-%m-%d"))
    write_result(options.out, {"machine": about, "figures": figures})


if __name__ == "__main__":
    main()
