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
from pathlib import Path
from typing import Any

import docker
from image_tools.catalog import DEFAULT_REGISTRY, FOLDER, read_catalog

from benchmarks.images import layers
from benchmarks.result_files import machine, write_result

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RELEASE = read_catalog()["release"]
COMPARED = {"torch-cu13": "torch", "tensorflow-cu12": "tensorflow"}
TORCH = {"before": "torch==2.13.0", "minor": "torch==2.14.0", "patch": "torch==2.14.1"}


def tag_of(name: str, release: str = RELEASE) -> str:
    """Return the local tag of a row."""
    return f"{DEFAULT_REGISTRY}/{name}:{release}"


def build_plain(name: str) -> str:
    """Build the yardstick of a row, a plain pip installation; return its tag."""
    tag = f"plain.example.com/{name}"
    command = ["docker", "build", "--quiet", "--tag", tag, "--file", str(HERE / "plain.Dockerfile"), str(FOLDER / name)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return tag


def remove(tag: str) -> None:
    """Remove an image and the build cache that nothing uses any more."""
    subprocess.run(["docker", "image", "rm", "--force", tag], check=False, capture_output=True)
    subprocess.run(["docker", "builder", "prune", "--force"], check=False, capture_output=True)


def cold_import(tag: str, module: str) -> float:
    """Return the seconds that `import module` takes in a fresh container with an empty page cache."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    command = ["docker", "run", "--rm", "--network=none", tag, "python", "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_plain(client: docker.DockerClient, rounds: int = 5) -> dict[str, Any]:
    """Return size and cold import time of two rows against their yardsticks, a plain pip installation of each.

    For the import, image and yardstick take turns, so that both meet the same machine.
    """
    result = {}
    for name, module in COMPARED.items():
        plain_tag = build_plain(name)
        plain, mine = (layers.total(layers.measure(client, tag)) for tag in (plain_tag, tag_of(name)))
        times: dict[str, list[float]] = {"image": [], "plain": []}
        for _ in range(rounds):
            times["image"].append(round(cold_import(tag_of(name), module), 2))
            times["plain"].append(round(cold_import(plain_tag, module), 2))
        remove(plain_tag)
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        result[name] = {
            "compressed_mb": {
                "image": round(mine / 1e6, 1),
                "plain": round(plain / 1e6, 1),
                "ratio": round(mine / plain, 4),
            },
            "import_s": {**medians, "ratio": round(medians["image"] / medians["plain"], 3), "all": times},
        }
    return result


def measure_change(client: docker.DockerClient, name: str = "torch-cu13", rounds: int = 5) -> dict[str, Any]:
    """Return the seconds to rebuild a child after a one-line change, and the bytes that a node pulls for it."""
    seconds, bytes_pulled = [], []
    with tempfile.TemporaryDirectory() as folder:
        child = Path(folder)
        (child / "src").mkdir()
        text = f"FROM {tag_of(name)}\nCOPY src/ /app/src/\nENV PYTHONPATH=/app/src\n"
        (child / "Dockerfile").write_text(text)
        old: list[layers.Layer] = []
        for number in range(rounds + 1):
            (child / "src" / "model.py").write_text(f"ANSWER = {number}\n")
            started = time.perf_counter()
            subprocess.run(
                ["docker", "build", "--quiet", "--tag", f"change.example.com/{number}", folder],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            took = time.perf_counter() - started
            if number in (0, rounds):
                new = layers.measure(client, f"change.example.com/{number}")
                bytes_pulled += [layers.pulled(old, new)] if old else []
                old = new
            seconds += [round(took, 2)] if number else []
    for number in range(rounds + 1):
        subprocess.run(
            ["docker", "image", "rm", "--force", f"change.example.com/{number}"], check=False, capture_output=True
        )
    return {"rebuild_s": seconds, "median_s": statistics.median(seconds), "pulled_bytes": bytes_pulled[0]}


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


def build_other_torch(folder: Path, request: str, lock: str | None) -> tuple[str, str]:
    """Build torch-cu13 with another torch in a copy of base-images; return the tag and the lock it came to."""
    row = folder / "base-images" / "torch-cu13"
    row.joinpath("requirements.in").write_text(f"{request}\nnumpy==2.4.6\nnetworkx==3.6.1\n")
    row.joinpath("requirements.lock").unlink(missing_ok=True)
    if lock is not None:
        row.joinpath("requirements.lock").write_text(lock)
    registry = f"update.example.com/{request.replace('==', '-')}"
    environment = os.environ | {"PYTHONPATH": f"{folder / 'base-images'}:{ROOT}/runtime/src"}
    tool = [sys.executable, "-m", "image_tools"]
    options = ["--image", "torch-cu13", "--registry", registry]
    subprocess.run([*tool, "lock", *options], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    describe(folder / "base-images" / "catalog.yml", row.joinpath("requirements.lock").read_text())
    subprocess.run([*tool, "plan", *options], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    bake = ["docker", "buildx", "bake", "--file", "build/images/docker-bake.json", "--load", "torch-cu13"]
    subprocess.run(bake, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return f"{registry}/torch-cu13:{RELEASE}", row.joinpath("requirements.lock").read_text()


def measure_update(client: docker.DockerClient) -> dict[str, Any]:
    """Return what 2.13.0 -> 2.14.0 (cuDNN and NCCL move) and 2.14.0 -> 2.14.1 re-pull, as parts of the image."""
    found: dict[str, list[layers.Layer]] = {}
    lock: str | None = None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(FOLDER, folder / "base-images")
        for kind, request in TORCH.items():
            tag, lock = build_other_torch(folder, request, lock)
            found[kind] = layers.measure(client, tag)
            remove(tag)
    steps = {"minor": ("before", "minor"), "patch": ("minor", "patch")}
    result: dict[str, Any] = {"versions": TORCH}
    for step, (old, new) in steps.items():
        size = layers.total(found[new])
        figures = layers.pulled(found[old], found[new])
        result[step] = {"bytes": figures, "part": {key: round(value / size, 3) for key, value in figures.items()}}
    return result


def main() -> None:
    """Measure one part and add it to the result file."""
    parts = {
        "plain": measure_plain,
        "change": measure_change,
        "update": measure_update,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--result", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    engine = docker.from_env(timeout=1800)
    figures = parts[arguments.part](engine)
    result = json.loads(arguments.result.read_text()) if arguments.result.exists() else {}
    about = machine(docker=engine.version()["Version"], date=time.strftime("%Y-%m-%d"))
    result[arguments.part] = {"machine": about, "figures": figures}
    write_result(arguments.result, result)


if __name__ == "__main__":
    main()
