"""Measure the base images and write the figures with the machine they were measured on.

    python -m benchmarks.images.run plain|change|update [--result FILE]

plain   size and cold import time against a plain pip installation of the same lock on the same operating system image
change  time and bytes of a one-line change in a child
update  bytes that a torch patch and a torch minor release re-pull (three images are built from other locks)
Each part adds its figures to the result file; images must be built (make images) and an engine must answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import docker
from image_tools.catalog import DEFAULT_REGISTRY, FOLDER, read_catalog

from benchmarks import ROOT
from benchmarks.harness import machine, measured, medians, take_turns, write_result
from benchmarks.images.layers import measure, pulled, total

HERE = Path(__file__).resolve().parent
RELEASE = read_catalog()["release"]
COMPARED = {"torch-cu13": "torch", "torch-cu12": "torch", "tensorflow-cu12": "tensorflow"}
TORCH = {"before": "torch==2.13.0", "minor": "torch==2.14.0", "patch": "torch==2.14.1"}
ROUNDS = 5


def run(*command: str | Path, **options: Any) -> str:
    """Run a program and return what it prints. Raises CalledProcessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def remove(tag: str) -> None:
    """Remove an image and the build cache that nothing uses any more."""
    for command in (["image", "rm", "--force", tag], ["builder", "prune", "--force"]):
        subprocess.run(["docker", *command], check=False, capture_output=True)


def cold_import(tag: str, module: str) -> dict[str, float]:
    """Return the seconds that `import module` takes in a fresh container with an empty page cache."""
    run("sync")
    Path("/proc/sys/vm/drop_caches").write_text("3\n")  # needs root
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return {"s": float(run("docker", "run", "--rm", "--network=none", tag, "python", "-c", code).split()[-1])}


def measure_plain(client: docker.DockerClient) -> dict[str, Any]:
    """Return size and cold import time of two rows against their yardsticks, a plain pip installation of each."""
    result = {}
    for name, module in COMPARED.items():
        tags = {"image": f"{DEFAULT_REGISTRY}/{name}:{RELEASE}", "plain": f"plain.example.com/{name}"}
        run("docker", "build", "--quiet", "--tag", tags["plain"], "--file", HERE / "plain.Dockerfile", FOLDER / name)
        sizes = {kind: round(total(measure(client, tag)) / 1e6, 1) for kind, tag in tags.items()}
        turns = take_turns({kind: partial(cold_import, tag, module) for kind, tag in tags.items()}, ROUNDS)
        remove(tags["plain"])
        times = {kind: round(medians(rounds)["s"], 2) for kind, rounds in turns.items()}
        result[name] = {
            "compressed_mb": {**sizes, "ratio": round(sizes["image"] / sizes["plain"], 4)},
            "import_s": {**times, "ratio": round(times["image"] / times["plain"], 3)},
        }
    return result


def measure_change(client: docker.DockerClient) -> dict[str, Any]:
    """Return the seconds to rebuild a child after a one-line change, and the bytes that a node pulls for it."""
    tags = [f"change.example.com/{number}" for number in range(ROUNDS + 1)]
    with tempfile.TemporaryDirectory() as folder:
        child = Path(folder)
        (child / "src").mkdir()
        text = f"FROM {DEFAULT_REGISTRY}/torch-cu13:{RELEASE}\nCOPY src/ /app/src/\nENV PYTHONPATH=/app/src\n"
        (child / "Dockerfile").write_text(text)
        seconds = []
        for tag in tags:
            (child / "src" / "model.py").write_text(f"ANSWER = {tag!r}\n")
            seconds.append(round(measured(["docker", "build", "--quiet", "--tag", tag, folder])["wall_s"], 2))
    bytes_pulled = pulled(measure(client, tags[0]), measure(client, tags[-1]))
    for tag in tags:
        remove(tag)
    return {"rebuild_s": seconds[1:], "median_s": statistics.median(seconds[1:]), "pulled_bytes": bytes_pulled}


def describe(catalog: Path, lock: str) -> None:
    """Make the row torch-cu13 of a copy of the catalogue say what its lock holds, because the build compares them."""
    versions = dict(re.findall(r"(?m)^([a-z0-9-]+)==([^ \\]+)", lock))
    said = {
        "framework_version": versions["torch"],
        "cuda": ".".join(versions["nvidia-cuda-runtime"].split(".")[:2]),
        "cudnn": versions["nvidia-cudnn-cu13"],
        "nccl": versions["nvidia-nccl-cu13"],
    }
    head, name, rest = catalog.read_text().partition("  - name: torch-cu13\n")
    row, end, others = rest.partition("  - name: ")
    for key, value in said.items():
        row = re.sub(rf'(?m)^    {key}: ".*"$', f'    {key}: "{value}"', row)
    catalog.write_text(head + name + row + end + others)


def build_other_torch(folder: Path, request: str) -> str:
    """Build torch-cu13 with another torch in a copy of base-images, from the lock before; return the tag."""
    row = folder / "base-images" / "torch-cu13"
    row.joinpath("requirements.in").write_text(f"{request}\nnumpy==2.4.6\nnetworkx==3.6.1\n")
    registry = f"update.example.com/{request.replace('==', '-')}"
    environment = os.environ | {"PYTHONPATH": f"{folder / 'base-images'}:{ROOT}/runtime/src", "KEEP_CACHE": "1"}
    tool = [sys.executable, "-m", "image_tools"]
    options = ["--image", "torch-cu13", "--registry", registry]
    run(*tool, "lock", *options, cwd=folder, env=environment)
    describe(folder / "base-images" / "catalog.yml", row.joinpath("requirements.lock").read_text())
    run(*tool, "build", *options, cwd=folder, env=environment)
    return f"{registry}/torch-cu13:{RELEASE}"


def measure_update(client: docker.DockerClient) -> dict[str, Any]:
    """Return what 2.13.0 -> 2.14.0 (cuDNN and NCCL move) and 2.14.0 -> 2.14.1 re-pull, as parts of the image."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(FOLDER, folder / "base-images")
        (folder / "base-images/torch-cu13/requirements.lock").unlink()
        for kind, request in TORCH.items():
            tag = build_other_torch(folder, request)
            found[kind] = measure(client, tag)
            remove(tag)
    result: dict[str, Any] = {"versions": TORCH}
    for step, old, new in (("minor", "before", "minor"), ("patch", "minor", "patch")):
        figures = pulled(found[old], found[new])
        part = {key: round(value / total(found[new]), 3) for key, value in figures.items()}
        result[step] = {"bytes": figures, "part": part}
    return result


def main() -> None:
    """Measure one part and add it to the result file."""
    parts = {"plain": measure_plain, "change": measure_change, "update": measure_update}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--result", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    engine = docker.from_env(timeout=1800)
    result = json.loads(arguments.result.read_text()) if arguments.result.exists() else {}
    figures = parts[arguments.part](engine)
    about = machine(docker=engine.version()["Version"], date=time.strftime("%Y-%m-%d"))
    result[arguments.part] = {"machine": about, "figures": figures}
    write_result(arguments.result, result)


if __name__ == "__main__":
    main()
